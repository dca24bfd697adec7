import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState } from "react";
import { message } from "../api/http";
import { getFile } from "../api/jobs";
import { plain } from "../model/ansi";
import { bytes } from "../model/format";
import { highlight, languageOf } from "../model/highlight";
import { asImage } from "../model/inert";
import { IconButton, Loading, Notice, Segmented } from "../ui/controls";
import { Markdown, Tokens } from "../ui/rich";
import { copyText } from "../ui/toast";
import { save } from "./result";
import { useJob } from "./context";

const maxText = 4 << 20; // bytes of a file that are shown
const lineHeight = 20;

type Shown = { kind: "text"; text: string; cut: boolean } | { kind: "image"; url: string } | { kind: "binary" };

/** One file: text with line numbers, a picture, or what it is. */
export function FileView({ path, onClose }: { path: string; onClose: () => void }) {
  const { id, step } = useJob();
  const [blob, setBlob] = useState<Blob | null>(null);
  const [shown, setShown] = useState<Shown | null>(null);
  const [error, setError] = useState("");
  const markdown = /\.(md|markdown)$/i.test(path);
  const [rendered, setRendered] = useState(markdown);
  useEffect(() => {
    const abort = new AbortController();
    let url = "";
    const load = async () => {
      const res = await getFile(id, path, step ?? undefined, abort.signal);
      const data = await res.blob();
      const image = await asImage(data);
      if (abort.signal.aborted) return;
      setBlob(data);
      if (image) {
        url = URL.createObjectURL(image);
        setShown({ kind: "image", url });
      } else if ((res.headers.get("Content-Type") ?? "").startsWith("text/plain")) {
        setShown({ kind: "text", text: await data.slice(0, maxText).text(), cut: data.size > maxText });
      } else setShown({ kind: "binary" });
    };
    load().catch((err: unknown) => !abort.signal.aborted && setError(message(err)));
    return () => {
      abort.abort();
      if (url) URL.revokeObjectURL(url);
    };
  }, [id, path, step]);
  return (
    <div className="file-view">
      <div className="file-head">
        <IconButton icon="cross" label="Close the file" onClick={onClose} />
        <code title={path}>{plain(path)}</code>
        {blob && <span className="muted">{bytes(blob.size)}</span>}
        <span className="bar-end">
          {markdown && shown?.kind === "text" && (
            <Segmented
              label="Show"
              value={rendered ? "text" : "source"}
              choices={[
                { value: "text", label: "Text" },
                { value: "source", label: "Source" },
              ]}
              onChange={(v) => setRendered(v === "text")}
            />
          )}
          {shown?.kind === "text" && <IconButton icon="copy" label="Copy the file" onClick={() => void copyText(shown.text)} />}
          {blob && <IconButton icon="download" label="Download the file" onClick={() => save(new Blob([blob], { type: "application/octet-stream" }), path.split("/").pop() ?? "file")} />}
        </span>
      </div>
      {error && <Notice tone="bad">{error}</Notice>}
      {!shown && !error && <Loading />}
      {shown?.kind === "image" && (
        <div className="file-image">
          <img src={shown.url} alt={plain(path)} />
        </div>
      )}
      {shown?.kind === "binary" && <p className="muted pad">This is not text. Download it to look into it.</p>}
      {shown?.kind === "text" && (rendered ? <div className="file-markdown" tabIndex={0}><Markdown text={shown.text} /></div> : <Source text={shown.text} path={path} cut={shown.cut} />)}
    </div>
  );
}

function Source({ text, path, cut }: { text: string; path: string; cut: boolean }) {
  const lines = useMemo(() => highlight(plain(text).replace(/\n$/, ""), languageOf(path)), [text, path]);
  const box = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({ count: lines.length, getScrollElement: () => box.current, estimateSize: () => lineHeight, overscan: 20 });
  return (
    <div className="source" ref={box} tabIndex={0} role="group" aria-label={`Contents of ${path}`}>
      <div className="source-space" ref={(el) => el?.style.setProperty("height", `${virtual.getTotalSize()}px`)}>
        {virtual.getVirtualItems().map((v) => (
          <div key={v.key} className="source-line" ref={(el) => el?.style.setProperty("transform", `translateY(${v.start}px)`)}>
            <span className="ln">{v.index + 1}</span>
            <code>
              <Tokens tokens={lines[v.index]!} />
            </code>
          </div>
        ))}
      </div>
      {cut && <p className="note">The file is longer; this is its beginning.</p>}
    </div>
  );
}
