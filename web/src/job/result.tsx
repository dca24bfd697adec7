// What came of the job: summary, verification, how to run it, the download.
import { useState } from "react";
import { address, message, request, session } from "../api/http";
import { artifactPath } from "../api/jobs";
import { bytes } from "../model/format";
import { plain } from "../model/ansi";
import { Button, Empty, IconButton, Notice } from "../ui/controls";
import { Markdown } from "../ui/rich";
import { copyText, toast } from "../ui/toast";
import { LimitsDialog } from "./limits";
import { useJob } from "./context";
import { ProofList } from "./proofs";
import { setQuery } from "../router";

export function Result() {
  const { view, history } = useJob();
  const [raise, setRaise] = useState(false);
  const proofs = view.verification ?? [];
  const held = proofs.filter((p) => p.exit_code === 0).length;
  if (!view.summary && !view.error && !view.artifact && proofs.length === 0) return <Empty icon="flag" title={view.status === "cancelled" ? "The job was cancelled" : "There is no result yet"} />;
  return (
    <div className="result">
      {view.error && (
        <Notice
          tone="bad"
          action={
            view.error.limit ? (
              <Button small kind="primary" onClick={() => setRaise(true)}>
                Raise and go on
              </Button>
            ) : undefined
          }
        >
          <strong>{plain(view.error.message)}</strong> {plain(view.error.hint ?? "")}
        </Notice>
      )}
      {view.summary && (
        <section>
          <h2>What was built</h2>
          <Markdown text={view.summary} />
        </section>
      )}
      {view.artifact && (
        <section className="download">
          <Download />
          <dl>
            <dt>Files</dt>
            <dd>
              {view.artifact.files}{" "}
              <button type="button" className="link" onClick={() => setQuery({ tab: "files" })}>
                look at them
              </button>
            </dd>
            <dt>SHA-256</dt>
            <dd className="sha">
              <code>{view.artifact.sha256}</code>
              <IconButton icon="copy" label="Copy the SHA-256" onClick={() => void copyText(view.artifact!.sha256)} />
            </dd>
            {history.skipped.length > 0 && (
              <>
                <dt>Left out</dt>
                <dd>{history.skipped.map((s) => `${plain(s.path)} (${plain(s.reason)})`).join(", ")}</dd>
              </>
            )}
          </dl>
        </section>
      )}
      {view.how_to_run && (
        <section>
          <h2>How to run it</h2>
          <HowToRun text={view.how_to_run} />
        </section>
      )}
      {proofs.length > 0 && (
        <section>
          <h2>
            Verification <span className={`pill ${held === proofs.length ? "good" : "bad"}`}>{held === proofs.length ? `all ${held} hold` : `${held} of ${proofs.length} hold`}</span>
          </h2>
          <ProofList proofs={proofs} />
        </section>
      )}
      {raise && <LimitsDialog onClose={() => setRaise(false)} />}
    </div>
  );
}

/** Commands look like commands; a text with more in it is a text. */
function HowToRun({ text }: { text: string }) {
  if (/```|^#|\n\n/m.test(text) || text.split("\n").some((l) => l.length > 140)) return <Markdown text={text} />;
  return (
    <div className="command">
      <pre tabIndex={0}>{plain(text)}</pre>
      <IconButton icon="copy" label="Copy" onClick={() => void copyText(text)} />
    </div>
  );
}

function Download() {
  const { id, view } = useJob();
  const [progress, setProgress] = useState<number | null>(null);
  const size = view.artifact!.size;
  const label = `Download the project, ${bytes(size)}`;
  const name = `${id}.zip`;
  if (!session.token)
    return (
      <a className="button primary large" href={address(artifactPath(id))} download={name}>
        <span>{label}</span>
      </a>
    );
  // A link can't send the token: the page fetches the zip and hands it over.
  const load = async () => {
    setProgress(0);
    try {
      const res = await request(artifactPath(id));
      const parts: BlobPart[] = [];
      const reader = res.body!.getReader();
      for (let got = 0; ; ) {
        const { done, value } = await reader.read();
        if (done) break;
        parts.push(value as Uint8Array<ArrayBuffer>);
        got += value.length;
        setProgress(got / size);
      }
      save(new Blob(parts, { type: "application/zip" }), name);
    } catch (err) {
      toast(message(err), "bad");
    }
    setProgress(null);
  };
  return (
    <Button kind="primary" className="large" icon="download" busy={progress !== null} onClick={() => void load()}>
      {progress === null ? label : `${Math.round(progress * 100)} %`}
    </Button>
  );
}

/** Hands a blob to the browser as a download. */
export function save(blob: Blob, name: string): void {
  const a = document.createElement("a");
  a.href = URL.createObjectURL(blob);
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 60_000);
}
