// Numbers and times as people read them.

export function bytes(n: number): string {
  if (n < 1000) return `${n} B`;
  const units = ["kB", "MB", "GB", "TB"];
  let v = n;
  let i = -1;
  do {
    v /= 1000;
    i++;
  } while (v >= 999.5 && i < units.length - 1);
  return `${v >= 100 ? v.toFixed(0) : v.toFixed(1)} ${units[i]}`;
}

/** Memory and disk are counted in powers of two. */
export function binaryBytes(n: number): string {
  if (n >= 1 << 30) return `${+(n / (1 << 30)).toFixed(1)} GiB`;
  return `${+(n / (1 << 20)).toFixed(0)} MiB`;
}

export function count(n: number): string {
  if (n < 1000) return String(n);
  if (n < 999_500) return `${+(n / 1000).toPrecision(3)}k`;
  if (n < 999_500_000) return `${+(n / 1e6).toPrecision(3)}M`;
  return `${+(n / 1e9).toPrecision(3)}G`;
}

export function dollars(micros: number): string {
  const v = micros / 1e6;
  if (v === 0) return "$0";
  if (v < 0.01) return "<$0.01";
  return v >= 1000 ? `$${v.toLocaleString("en-US", { maximumFractionDigits: 0 })}` : `$${v.toFixed(2)}`;
}

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const s = ms / 1000;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  const m = Math.floor(s / 60);
  if (m < 60) return `${m} min ${String(Math.floor(s % 60)).padStart(2, "0")} s`;
  const h = Math.floor(m / 60);
  return h < 48 ? `${h} h ${String(m % 60).padStart(2, "0")} min` : `${Math.floor(h / 24)} d ${h % 24} h`;
}

/** A duration for a running clock: 0:07, 12:34, 1:02:03. */
export function clock(ms: number): string {
  const s = Math.max(0, Math.floor(ms / 1000));
  const h = Math.floor(s / 3600);
  const mm = Math.floor((s % 3600) / 60);
  const ss = String(s % 60).padStart(2, "0");
  return h > 0 ? `${h}:${String(mm).padStart(2, "0")}:${ss}` : `${mm}:${ss}`;
}

export function ago(then: string, now: number): string {
  const s = Math.max(0, (now - Date.parse(then)) / 1000);
  if (s < 45) return "just now";
  if (s < 3600) return `${Math.max(1, Math.round(s / 60))} min ago`;
  if (s < 86_400) return `${Math.round(s / 3600)} h ago`;
  const days = Math.round(s / 86_400);
  if (days < 14) return days === 1 ? "yesterday" : `${days} days ago`;
  return new Date(then).toLocaleDateString(undefined, { year: "numeric", month: "short", day: "numeric" });
}

export function timeOfDay(t: string): string {
  return new Date(t).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

/** The first line that says something, without the marks of Markdown's headings. */
export function title(task: string): string {
  const line = task.split("\n").find((l) => l.trim() !== "") ?? "";
  return line.replace(/^#+\s*/, "").trim();
}

export function plural(n: number, what: string): string {
  return n === 1 ? `1 ${what}` : `${count(n)} ${what}s`;
}

/** A share from 0 to 1. */
export function percent(share: number): string {
  const p = share * 100;
  return p > 99 && p < 100 ? `${(Math.floor(p * 10) / 10).toFixed(1)} %` : `${Math.round(p)} %`;
}
