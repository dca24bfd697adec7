// What a job starts from: files and folders, an archive, or a git repository.
import { useRef, useState } from "react";
import { filesOf, isArchive, leftOut, skipped, withoutRoot, type Picked } from "../model/attach";
import { bytes } from "../model/format";
import { message } from "../api/http";
import { Button, IconButton } from "../ui/controls";
import { Icon } from "../ui/icons";

export type Attachment = { kind: "none" } | { kind: "files"; files: Picked[]; left: number } | { kind: "git"; url: string; ref: string };

export function Attach({ value, onChange, gitError }: { value: Attachment; onChange: (a: Attachment) => void; gitError: string }) {
  const [over, setOver] = useState(false);
  const [fault, setFault] = useState("");
  const files = useRef<HTMLInputElement>(null);
  const folder = useRef<HTMLInputElement>(null);

  const take = (picked: Picked[]) => {
    const kept = picked.filter((p) => !skipped(p.path));
    setFault("");
    if (kept.length > 0) onChange({ kind: "files", files: kept.length === 1 && isArchive(kept[0]!.path) ? kept : withoutRoot(kept), left: picked.length - kept.length });
  };
  const drop = async (e: React.DragEvent) => {
    e.preventDefault();
    setOver(false);
    try {
      take(await filesOf(e.dataTransfer));
    } catch (err) {
      setFault(message(err));
    }
  };
  const chosen = (list: FileList | null) => take([...(list ?? [])].map((file) => ({ path: file.webkitRelativePath || file.name, file })));

  return (
    <div
      className={`attach ${over ? "over" : ""}`}
      onDragOver={(e) => {
        e.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(e) => void drop(e)}
    >
      <input ref={files} type="file" multiple hidden onChange={(e) => chosen(e.target.files)} />
      <input ref={folder} type="file" hidden onChange={(e) => chosen(e.target.files)} {...{ webkitdirectory: "" }} />
      {value.kind === "none" && (
        <>
          <Button kind="quiet" small icon="file" onClick={() => files.current?.click()}>
            Files or a zip
          </Button>
          <Button kind="quiet" small icon="folder" onClick={() => folder.current?.click()}>
            A folder
          </Button>
          <Button kind="quiet" small icon="link" onClick={() => onChange({ kind: "git", url: "", ref: "" })}>
            A git repository
          </Button>
          <span className="muted no-phone">or drop them here</span>
        </>
      )}
      {value.kind === "files" && (
        <p className="attached">
          <Icon name={value.files.length === 1 ? "file" : "folder"} />
          <span>
            {value.files.length === 1 ? value.files[0]!.path : `${value.files.length.toLocaleString("en-US")} files`}, {bytes(value.files.reduce((n, f) => n + f.file.size, 0))}
            {value.left > 0 && <span className="muted"> ({value.left} in {[...leftOut].slice(0, 2).join(", ")} and the like left out)</span>}
          </span>
          <IconButton icon="cross" label="Remove the files" onClick={() => onChange({ kind: "none" })} />
        </p>
      )}
      {value.kind === "git" && (
        <div className="git-fields">
          <input type="url" aria-label="Address of the git repository" placeholder="https://example.org/me/project.git" autoFocus value={value.url} maxLength={2048} onChange={(e) => onChange({ ...value, url: e.target.value })} aria-invalid={gitError ? true : undefined} />
          <input type="text" aria-label="Branch, tag or commit" placeholder="branch, tag or commit" value={value.ref} maxLength={200} onChange={(e) => onChange({ ...value, ref: e.target.value })} />
          <IconButton icon="cross" label="Remove the repository" onClick={() => onChange({ kind: "none" })} />
        </div>
      )}
      {(fault || gitError) && (
        <p className="note bad" role="alert">
          {fault || gitError}
        </p>
      )}
    </div>
  );
}
