// The files that a person drops or picks.

export interface Picked {
  path: string;
  file: File;
}

/** Directories that a project can do without: they are made again from what is kept. */
export const leftOut = new Set(["node_modules", ".git", "__pycache__", ".venv", "venv", "target", ".next", ".cache"]);

/** Whether a dropped file is an archive that can be sent as it is. */
export const isArchive = (name: string): boolean => /\.(zip|tar\.gz|tgz)$/i.test(name);

/** Whether a path is within a directory that is left out. */
export const skipped = (path: string): boolean => path.split("/").slice(0, -1).some((p) => leftOut.has(p));

/** The files of a drop, folders included. */
export async function filesOf(data: DataTransfer): Promise<Picked[]> {
  const entries = [...data.items].map((i) => i.webkitGetAsEntry?.()).filter((e): e is FileSystemEntry => !!e);
  if (entries.length === 0) return [...data.files].map((file) => ({ path: file.name, file }));
  const out: Picked[] = [];
  for (const e of entries) await walk(e, "", out);
  return out;
}

const maxFiles = 50_000;

async function walk(entry: FileSystemEntry, prefix: string, out: Picked[]): Promise<void> {
  if (out.length >= maxFiles) throw new Error(`That is more than ${maxFiles.toLocaleString("en-US")} files. Drop a smaller folder, or a zip of it.`);
  const path = prefix + entry.name;
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    out.push({ path, file });
    return;
  }
  if (leftOut.has(entry.name)) return;
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    const batch = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (batch.length === 0) return;
    for (const e of batch) await walk(e, path + "/", out);
  }
}

/** Without the folder that all paths have in common, if there is one. */
export function withoutRoot(files: Picked[]): Picked[] {
  const root = files[0]?.path.split("/")[0];
  if (!root || !files.every((f) => f.path.startsWith(root + "/"))) return files;
  return files.map((f) => ({ ...f, path: f.path.slice(root.length + 1) }));
}
