// Light or dark: as the system says, or as the person chose here.
import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";

const key = "glovebox.theme";
const listeners = new Set<() => void>();
let theme: Theme = stored();

function stored(): Theme {
  try {
    const v = localStorage.getItem(key);
    return v === "light" || v === "dark" ? v : "system";
  } catch {
    return "system";
  }
}

export function applyTheme(): void {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

export function setTheme(t: Theme): void {
  theme = t;
  try {
    if (t === "system") localStorage.removeItem(key);
    else localStorage.setItem(key, t);
  } catch {
    // It holds until the page is left.
  }
  applyTheme();
  listeners.forEach((l) => l());
}

export const nextTheme = (t: Theme): Theme => (t === "system" ? "light" : t === "light" ? "dark" : "system");

export function useTheme(): Theme {
  return useSyncExternalStore(
    (l) => {
      listeners.add(l);
      return () => listeners.delete(l);
    },
    () => theme,
  );
}

/** Whether the page is dark now. */
export function isDark(): boolean {
  return theme === "dark" || (theme === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
}
