// Files become one zip, made in the browser.
import { Zip, ZipDeflate, ZipPassThrough } from "fflate";
import type { Picked } from "./attach";

export interface Packed {
  blob: Blob;
  files: number;
}

const packed = /\.(zip|gz|tgz|bz2|xz|zst|br|7z|rar|png|jpe?g|gif|webp|avif|mp[34]|webm|mov|pdf|woff2?|jar|whl|parquet)$/i;

/** Packs files into a zip, one after the other, so that memory holds the zip and one piece of a file. */
export async function pack(files: Picked[], maxBytes: number, onProgress?: (done: number) => void): Promise<Packed> {
  const chunks: BlobPart[] = [];
  let size = 0;
  let failure: Error | null = null;
  const zip = new Zip((err, chunk) => {
    if (err) failure = err;
    size += chunk.length;
    chunks.push(chunk as Uint8Array<ArrayBuffer>);
  });
  for (const [i, f] of files.entries()) {
    const entry = packed.test(f.path) ? new ZipPassThrough(f.path) : new ZipDeflate(f.path, { level: 6 });
    zip.add(entry);
    const reader = f.file.stream().getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      entry.push(value);
      if (failure) throw failure;
      if (size > maxBytes) throw new Error(`Packed, the files are larger than the server takes (${Math.floor(maxBytes / (1 << 20))} MiB).`);
    }
    entry.push(new Uint8Array(0), true);
    onProgress?.(i + 1);
  }
  zip.end();
  if (failure) throw failure;
  return { blob: new Blob(chunks, { type: "application/zip" }), files: files.length };
}
