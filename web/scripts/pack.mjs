// Packs what Vite built into dist/, the form in which it is embedded: each
// file that compresses as gzip and as brotli, and nothing else of it.
// With --check it only compares: dist/ must hold what the sources build to.
// Contents are compared, not compressed bytes: those differ from one version
// of Node to the next.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { brotliCompressSync, brotliDecompressSync, constants, gunzipSync, gzipSync } from "node:zlib";

const root = join(import.meta.dirname, "..");
const build = join(root, "build");
const dist = join(root, "dist");
const check = process.argv.includes("--check");

const files = (dir) =>
  readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((e) => e.isFile())
    .map((e) => relative(dir, join(e.parentPath, e.name)).split(sep).join("/"))
    .sort();

const problems = [];
const want = new Set();
if (!check) rmSync(dist, { recursive: true, force: true });

for (const name of files(build)) {
  const data = readFileSync(join(build, name));
  for (const [suffix, pack, unpack] of [
    [".gz", (b) => gzipSync(b, { level: 9 }), gunzipSync],
    [".br", (b) => brotliCompressSync(b, { params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: b.length } }), brotliDecompressSync],
  ]) {
    const path = name + suffix;
    want.add(path);
    const target = join(dist, path);
    if (!check) {
      mkdirSync(dirname(target), { recursive: true });
      writeFileSync(target, pack(data));
      continue;
    }
    try {
      if (!unpack(readFileSync(target)).equals(data)) problems.push(`${path} differs`);
    } catch {
      problems.push(`${path} is missing or broken`);
    }
  }
}
if (check) {
  for (const name of files(dist)) if (!want.has(name)) problems.push(`${name} is not built any more`);
  if (problems.length > 0) {
    console.error(`web/dist is not what web/src builds to; run: make web\n  ${problems.join("\n  ")}`);
    process.exit(1);
  }
  console.log(`web/dist is current: ${want.size} files`);
}
