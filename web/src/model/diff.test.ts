import { describe, expect, it } from "vitest";
import { diffTexts, parseUnified, type FileDiff } from "./diff";
import { patchDiffs } from "./tools";

/** What a diff makes of the text that it was made for. */
function apply(before: string, d: FileDiff): string {
  const a = before.split("\n");
  const out: string[] = [];
  let at = 0;
  for (const h of d.hunks)
    for (const l of h.lines) {
      if (l.kind === "add") out.push(l.text);
      else {
        while (at < l.old - 1) out.push(a[at++]!);
        expect(a[at]).toBe(l.text);
        if (l.kind === "same") out.push(l.text);
        at++;
      }
    }
  while (at < a.length) out.push(a[at++]!);
  return out.join("\n");
}

describe("diffTexts", () => {
  it("shows the lines that differ, with three around them", () => {
    const before = Array.from({ length: 20 }, (_, i) => `line ${i + 1}`);
    const after = [...before];
    after[9] = "changed";
    const d = diffTexts("a", before.join("\n"), after.join("\n"));
    expect(d.hunks).toHaveLength(1);
    expect(d.hunks[0]!.header).toBe("@@ -7,7 +7,7 @@");
    expect([d.added, d.deleted]).toEqual([1, 1]);
  });

  it("makes one text of the other, shortest way", () => {
    let seed = 7;
    const random = (n: number) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
    for (let round = 0; round < 300; round++) {
      const a = Array.from({ length: random(12) + 1 }, () => "abcd"[random(4)]!);
      const b = Array.from({ length: random(12) + 1 }, () => "abcd"[random(4)]!);
      const d = diffTexts("x", a.join("\n"), b.join("\n"));
      expect(apply(a.join("\n"), d)).toBe(b.join("\n"));
      expect(d.added - d.deleted).toBe(b.length - a.length);
      expect(a.length - d.deleted).toBe(common(a, b));
    }
  });

  it("takes what differs entirely, and what is large", () => {
    const a = Array.from({ length: 5000 }, (_, i) => `a${i}`).join("\n");
    const b = Array.from({ length: 5000 }, (_, i) => `b${i}`).join("\n");
    const d = diffTexts("x", a, b);
    expect([d.added, d.deleted]).toEqual([5000, 5000]);
    expect(diffTexts("x", null, "a\nb\n")).toMatchObject({ state: "added", added: 2, deleted: 0 });
    expect(diffTexts("x", "a\n", null)).toMatchObject({ state: "deleted", added: 0, deleted: 1 });
    expect(diffTexts("x", "same", "same").hunks).toEqual([]);
  });
});

/** The length of the longest common subsequence. */
function common(a: string[], b: string[]): number {
  const t = Array.from({ length: a.length + 1 }, () => new Array<number>(b.length + 1).fill(0));
  for (let i = 1; i <= a.length; i++) for (let j = 1; j <= b.length; j++) t[i]![j] = a[i - 1] === b[j - 1] ? t[i - 1]![j - 1]! + 1 : Math.max(t[i - 1]![j]!, t[i]![j - 1]!);
  return t[a.length]![b.length]!;
}

describe("parseUnified", () => {
  it("reads what git writes", () => {
    const files = parseUnified(
      "diff --git a/src/a.ts b/src/a.ts\nindex 1..2 100644\n--- a/src/a.ts\n+++ b/src/a.ts\n@@ -1,3 +1,4 @@ head\n one\n-two\n+2\n+2.5\n three\n\\ No newline at end of file\n" +
        "diff --git a/new.txt b/new.txt\nnew file mode 100644\n--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+--- not a header\n" +
        "diff --git a/old b/old\ndeleted file mode 100644\n--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n" +
        "diff --git a/p.png b/p.png\nBinary files a/p.png and b/p.png differ\n",
    );
    expect(files.map((f) => [f.path, f.state, f.added, f.deleted, f.binary])).toEqual([
      ["src/a.ts", "modified", 2, 1, false],
      ["new.txt", "added", 1, 0, false],
      ["old", "deleted", 0, 1, false],
      ["p.png", "modified", 0, 0, true],
    ]);
    expect(files[0]!.hunks[0]!.lines.map((l) => [l.old, l.new])).toEqual([[1, 1], [2, 0], [0, 2], [0, 3], [3, 4]]);
  });

  it("takes hunks without any header, and nonsense", () => {
    expect(parseUnified("@@ -1 +1 @@\n-a\n+b\n")[0]!.hunks[0]!.lines).toHaveLength(2);
    expect(parseUnified("hello\nworld")).toEqual([]);
    expect(parseUnified("@@ -1,99999 +1,1 @@\n")[0]?.added).toBe(0);
  });

  it("reads patches in an envelope", () => {
    const files = patchDiffs("*** Begin Patch\n*** Update File: a.go\n@@ func x\n-old\n+new\n same\n*** Add File: b.go\n+package b\n*** Delete File: c.go\n*** End Patch");
    expect(files.map((f) => [f.path, f.state, f.added, f.deleted])).toEqual([
      ["a.go", "modified", 1, 1],
      ["b.go", "added", 1, 0],
      ["c.go", "deleted", 0, 0],
    ]);
  });
});
