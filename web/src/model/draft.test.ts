import { describe, expect, it } from "vitest";
import { draftBytes, draftOf, emptyDraft, isBlank, pasted, typed, wholeText } from "./draft";

describe("a draft", () => {
  const long = "line of a log, with umlauts: äöü 🙂\n".repeat(150_000); // 5 MB

  it("keeps a long paste whole beside what is typed", () => {
    const d = pasted({ text: "Look at THIS please", pastes: [] }, long, 8, 12)!;
    expect(d.text).toBe("Look at  please");
    expect(wholeText(d)).toBe("Look at  please\n\n" + long);
    expect(draftBytes(d)).toBe(new TextEncoder().encode(wholeText(d)).length);
    expect(wholeText(pasted(emptyDraft, long, 0, 0)!)).toBe(long);
    expect(pasted(emptyDraft, "short", 0, 0)).toBeNull();
  });

  it("loses nothing of what comes into the text area in another way", () => {
    const before = { text: "Before. After.", pastes: [] };
    const d = typed(before, "Before. " + long + "After.");
    expect(d.text).toBe("Before. After.");
    expect(d.pastes.map((p) => p.text)).toEqual([long]);
    expect(wholeText(typed(emptyDraft, "x".repeat(100_000)))).toBe("x".repeat(100_000));
    // Many pastes that are short by themselves.
    let many = emptyDraft;
    for (let i = 0; i < 10; i++) {
      const piece = `${i}`.repeat(20_000);
      many = pasted(many, piece, many.text.length, many.text.length) ?? typed(many, many.text + piece);
    }
    expect(many.text.length).toBeLessThan(65_000);
    for (let i = 0; i < 10; i++) expect(wholeText(many)).toContain(`${i}`.repeat(20_000));
    // Of letters that repeat, what was added can't be told apart; that there is as much, can.
    const same = typed({ text: "a".repeat(63_000), pastes: [] }, "a".repeat(70_000));
    expect(same.text.length + same.pastes[0]!.text.length).toBe(70_000);
    // One letter more is typed, however long the text is.
    expect(typed({ text: "b".repeat(64_000), pastes: [] }, "b".repeat(64_001)).text).toHaveLength(64_001);
  });

  it("is blank where nothing but space is in it, and comes back as it was kept", () => {
    expect(isBlank(draftOf(" \n", ["\n "]))).toBe(true);
    expect(isBlank(draftOf("", ["x"]))).toBe(false);
    expect(wholeText(draftOf("a", ["b", "c"]))).toBe("a\n\nb\n\nc");
    expect(draftBytes(emptyDraft)).toBe(0);
  });
});
