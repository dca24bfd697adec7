// The items of the timeline that say what the model has before it.
import type { ReactNode } from "react";
import { bytes, plural, timeOfDay } from "../model/format";
import type { Item } from "../model/history";
import { reasonOf } from "../model/memory";
import { plain } from "../model/ansi";
import { Icon, type IconName } from "../ui/icons";
import { WholeOutput } from "./images";
import { firstLine, Fold, NoteList, Verbatim } from "./notes";

/** The item as elements; null if it is about something else. */
export function memoryItem(item: Item): ReactNode {
  switch (item.kind) {
    case "fold":
      return <FoldItem item={item} />;
    case "summaries":
      return (
        <Remembered icon="edit" title={item.text} time={item.time}>
          {item.problem && <p className="small">Not all could be used: {plain(item.problem)}</p>}
          {item.summaries.length > 0 && <NoteList notes={item.summaries} />}
        </Remembered>
      );
    case "instructions":
      return (
        <Remembered icon="book" title="Standing instructions were read" time={item.time}>
          <Fold title={<code>{plain(item.path)}</code>} peek={firstLine(item.text)}>
            {() => (
              <>
                <Verbatim text={item.text} />
                {item.blob && <WholeOutput handle={item.blob} />}
              </>
            )}
          </Fold>
        </Remembered>
      );
    case "project":
      return (
        <Remembered icon="folder" title={`What is known of the project ${plain(item.project)}`} time={item.time}>
          {item.files.length === 0 && <p className="small muted">Nothing was noted yet.</p>}
          {item.files.map((f) => (
            <Fold key={f.name} title={<code>{plain(f.name)}</code>} peek={firstLine(f.text)}>
              {() => <Verbatim text={f.text} />}
            </Fold>
          ))}
        </Remembered>
      );
    default:
      return null;
  }
}

function FoldItem({ item }: { item: Item & { kind: "fold" } }) {
  const f = item.fold;
  return (
    <Remembered icon="layers" title={item.text} time={item.time}>
      <p className="small muted">
        The reason: {reasonOf(f.reason)}. The model goes on with notes on what happened and the newest messages word for word; it can look everything else up.
      </p>
      {f.notes.length > 0 && <Fold title={plural(f.notes.length, "note")}>{() => <NoteList notes={f.notes} />}</Fold>}
      {f.recalled.length > 0 && (
        <Fold title={`${plural(f.recalled.length, "passage")} looked up for what comes next`}>
          {() =>
            f.recalled.map((q, i) => (
              <div key={i}>
                <p className="small muted">Event {q.event}</p>
                <Verbatim text={q.text} />
              </div>
            ))
          }
        </Fold>
      )}
    </Remembered>
  );
}

function Remembered({ icon, title, time, children }: { icon: IconName; title: string; time: string; children: ReactNode }) {
  return (
    <div className="item-box memory">
      <p className="item-head">
        <Icon name={icon} /> <strong>{title}</strong>
        <time className="item-time" dateTime={time}>
          {timeOfDay(time)}
        </time>
      </p>
      {children}
    </div>
  );
}

/** What is said of a message whose end is not shown. */
export const cutMessage = (size: number): string => `The beginning of ${bytes(size)}`;
