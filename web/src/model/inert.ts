// Pictures that came out of a sandbox: only those of a known type, by their
// first bytes, ever reach an <img>.

const kinds: [string, number[]][] = [
  ["image/png", [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]],
  ["image/jpeg", [0xff, 0xd8, 0xff]],
  ["image/gif", [0x47, 0x49, 0x46, 0x38]],
];

/** The type of a picture by its first bytes, "" if it is none that is shown. */
export function imageType(head: Uint8Array): string {
  for (const [type, magic] of kinds) if (magic.every((b, i) => head[i] === b)) return type;
  const ascii = (from: number, to: number) => String.fromCharCode(...head.slice(from, to));
  return ascii(0, 4) === "RIFF" && ascii(8, 12) === "WEBP" ? "image/webp" : "";
}

/** A blob whose type is what its bytes say, or null if that is no picture. */
export async function asImage(data: Blob): Promise<Blob | null> {
  const type = imageType(new Uint8Array(await data.slice(0, 16).arrayBuffer()));
  return type ? data.slice(0, data.size, type) : null;
}

/** The bytes of base64, or null. */
export function fromBase64(s: string): Blob | null {
  try {
    const raw = atob(s);
    const bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
    return new Blob([bytes]);
  } catch {
    return null;
  }
}
