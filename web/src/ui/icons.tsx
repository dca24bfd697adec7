// The icons, drawn on a grid of 16. They are decoration: words or labels say
// the same.
const paths = {
  plus: "M8 3.5v9M3.5 8h9",
  search: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9ZM10.5 10.5l3 3",
  check: "M3.5 8.5l3 3 6-7",
  cross: "M4 4l8 8M12 4l-8 8",
  chevron: "M6 4l4 4-4 4",
  down: "M4 6l4 4 4-4",
  arrowDown: "M8 3v10M4 9l4 4 4-4",
  file: "M4 2.5h5l3 3v8H4zM9 2.5v3h3",
  folder: "M2.5 4h4l1.5 1.5h5.5v7h-11z",
  terminal: "M2.5 3.5h11v9h-11zM5 6.5l2 1.5-2 1.5M8.5 10H11",
  screen: "M2 3h12v8H2zM6 13.5h4M8 11v2.5",
  globe: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM2 8h12M8 2c2 2 2.5 4 2.5 6S10 12 8 14c-2-2-2.5-4-2.5-6S6 4 8 2",
  book: "M3 3h6.5a2 2 0 0 1 2 2v8.5H5a2 2 0 0 1-2-2zM13 4.5v9h-1.5",
  chart: "M2.5 13.5h11M4.5 11V8M8 11V3.5M11.5 11V6",
  network: "M8 2v4M8 6 4 10M8 6l4 4M3 10h2.5v3H3zM10.5 10H13v3h-2.5z",
  wrench: "M10 2.5a3.5 3.5 0 0 0-3.3 4.7L2.5 11.4l2 2 4.2-4.2A3.5 3.5 0 0 0 13.4 5L11 7.3 8.7 5 11 2.7z",
  edit: "M3 13l.7-3L10.5 3.2l2.3 2.3L6 12.3z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M5 3.5v9l7-4.5z",
  stop: "M4 4h8v8H4z",
  hand: "M5 8V4.5a1 1 0 0 1 2 0V7m0-3.5v-.5a1 1 0 0 1 2 0V7m0-2.5a1 1 0 0 1 2 0V8m0-1.5a1 1 0 0 1 2 0V10c0 2.5-1.5 4-4 4-2 0-3-.7-4-2.2L3 9.3c-.6-1 .7-2 1.5-1L5.5 9.5",
  download: "M8 2.5v7.5M4.5 7 8 10.5 11.5 7M3 13.5h10",
  copy: "M6 6h7v7H6zM3.5 10V3H10",
  link: "M7 9l2-2M6.5 5.5 8.3 3.7a2.6 2.6 0 0 1 3.7 3.7L10.3 9.2M9.5 10.5 7.7 12.3A2.6 2.6 0 0 1 4 8.6l1.7-1.8",
  sun: "M8 10.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5ZM8 1.5v1.5M8 13v1.5M1.5 8H3M13 8h1.5M3.4 3.4l1 1M11.6 11.6l1 1M3.4 12.6l1-1M11.6 4.4l1-1",
  moon: "M13 9.5A5.5 5.5 0 1 1 6.5 3a4.5 4.5 0 0 0 6.5 6.5Z",
  auto: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 2v12M8 4.5h3.5M8 8h5M8 11.5h3.5",
  keyboard: "M1.5 4.5h13v7h-13zM4 7h.1M6.5 7h.1M9 7h.1M11.5 7h.1M5 9.5h6",
  warn: "M8 2.5 14.5 13.5h-13zM8 6.5v3.5M8 11.8v.1",
  info: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 7.5V11M8 5.2v.1",
  question: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM6.2 6.3a1.9 1.9 0 1 1 2.6 1.9c-.6.3-.8.6-.8 1.3M8 11.4v.1",
  brain: "M6 3.5a2 2 0 0 0-2 2 2.2 2.2 0 0 0-.5 4A2.2 2.2 0 0 0 6 12.5c1.2 0 2-.8 2-2v-5c0-1.2-.8-2-2-2ZM10 3.5a2 2 0 0 1 2 2 2.2 2.2 0 0 1 .5 4 2.2 2.2 0 0 1-2.5 3c-1.2 0-2-.8-2-2",
  layers: "M8 2.5 14 5.5 8 8.5 2 5.5zM2.5 8.3 8 11l5.5-2.7M2.5 11 8 13.7l5.5-2.7",
  block: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM3.8 3.8l8.4 8.4",
  flag: "M4 14V2.5M4 3h8l-1.5 2.5L12 8H4",
  user: "M8 8a2.7 2.7 0 1 0 0-5.4A2.7 2.7 0 0 0 8 8ZM3 13.5c.5-2.5 2.5-4 5-4s4.5 1.5 5 4",
  send: "M2.5 8 13.5 3 10 13.5 7.5 9z",
  list: "M6 4h7.5M6 8h7.5M6 12h7.5M2.8 4h.1M2.8 8h.1M2.8 12h.1",
  refresh: "M13 8a5 5 0 1 1-1.5-3.6M13 2.5v2.5h-2.5",
  more: "M3.5 8h.1M8 8h.1M12.5 8h.1",
  trash: "M3 4.5h10M6 4.5V3h4v1.5M4.5 4.5l.5 9h6l.5-9",
  expand: "M9.5 2.5h4v4M13.5 2.5 9 7M6.5 13.5h-4v-4M2.5 13.5 7 9",
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg className="icon" width={size} height={size} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={paths[name]} />
    </svg>
  );
}

export function Logo() {
  return (
    <svg className="logo" width="26" height="22" viewBox="0 0 32 26" aria-hidden="true" focusable="false">
      <rect x="1.5" y="1.5" width="29" height="23" rx="6" className="logo-case" />
      <circle cx="10.5" cy="14" r="4.3" className="logo-port" />
      <circle cx="21.5" cy="14" r="4.3" className="logo-port" />
    </svg>
  );
}
