// Pictures that came out of a sandbox: fetched from our own outputs, checked
// by their first bytes, shown as a blob of that type.
import { useEffect, useState } from "react";
import { message } from "../api/http";
import { getOutput } from "../api/jobs";
import type { Block } from "../api/types";
import { asImage, fromBase64 } from "../model/inert";
import { Button } from "../ui/controls";
import { Dialog } from "../ui/dialog";
import { Output } from "../ui/rich";
import { useJob } from "./context";

type Picture = { url: string; key: string } | { fault: string } | null;

/**
 * The address of a blob for a picture, for as long as the component lives. The
 * picture before stays until the next one is there, and gives its address up
 * only then: an image whose address is gone can't be drawn again.
 */
export function usePicture(load: ((signal: AbortSignal) => Promise<Blob>) | null, key: string): Picture {
  const [picture, setPicture] = useState<Picture>(null);
  const url = picture && "url" in picture ? picture.url : "";
  useEffect(() => () => URL.revokeObjectURL(url), [url]);
  useEffect(() => {
    if (!load) return setPicture(null);
    const abort = new AbortController();
    load(abort.signal)
      .then(asImage)
      .then(
        (image) => {
          if (abort.signal.aborted) return;
          if (!image) return setPicture({ fault: "This is no picture of a kind that is shown." });
          setPicture({ url: URL.createObjectURL(image), key });
        },
        (err) => !abort.signal.aborted && setPicture({ fault: message(err) }),
      );
    return () => abort.abort();
    // key stands for load, which is made anew at every drawing.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [key]);
  return picture;
}

export function Picture({ handle, alt }: { handle: string; alt: string }) {
  const { id } = useJob();
  const picture = usePicture(async (signal) => (await getOutput(id, handle, signal)).blob(), `${id}/${handle}`);
  return <Shown picture={picture} alt={alt} />;
}

export function BlockImage({ block }: { block: Block }) {
  const { id } = useJob();
  const key = block.blob ?? `data${(block.data ?? "").length}`;
  const handle = (block.blob ?? "").split("/").pop()!;
  const picture = usePicture(async (signal) => (handle ? (await getOutput(id, handle, signal)).blob() : (fromBase64(block.data ?? "") ?? new Blob([]))), `${id}/${key}`);
  return <Shown picture={picture} alt="A picture that the tool made" />;
}

function Shown({ picture, alt }: { picture: Picture; alt: string }) {
  const [large, setLarge] = useState(false);
  if (!picture) return <span className="picture-wait" role="status" aria-label="Loading the picture" />;
  if ("fault" in picture) return <p className="muted small">The picture can&rsquo;t be shown. {picture.fault}</p>;
  return (
    <>
      <button type="button" className="picture" onClick={() => setLarge(true)} aria-label={`${alt}; enlarge`}>
        <img src={picture.url} alt={alt} data-picture={picture.key} />
      </button>
      {large && (
        <Dialog title={alt} onClose={() => setLarge(false)} wide>
          <img className="large-picture" src={picture.url} alt={alt} />
        </Dialog>
      )}
    </>
  );
}

const maxShown = 2 << 20; // characters of an output that are shown

/** Fetches an output that the log has only in part. */
export function WholeOutput({ handle }: { handle: string }) {
  const { id } = useJob();
  const [text, setText] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const load = async () => {
    setBusy(true);
    try {
      const all = await (await getOutput(id, handle)).text();
      setText(all.length > maxShown ? all.slice(0, maxShown) + "\n[cut here: it is longer than this page shows]" : all);
    } catch (err) {
      setText(message(err));
    }
    setBusy(false);
  };
  if (text !== null) return <Output text={text} lines={400} label="Whole output" />;
  return (
    <Button kind="quiet" small busy={busy} onClick={() => void load()}>
      Show the whole output
    </Button>
  );
}
