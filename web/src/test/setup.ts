// What jsdom lacks and the page uses.
import { cleanup, configure } from "@testing-library/react";
import { afterEach } from "vitest";

if (typeof HTMLDialogElement !== "undefined" && !HTMLDialogElement.prototype.showModal) {
  HTMLDialogElement.prototype.showModal = function () {
    this.open = true;
  };
}
window.matchMedia ??= ((query: string) => ({ matches: false, media: query, addEventListener() {}, removeEventListener() {} })) as unknown as typeof matchMedia;
globalThis.ResizeObserver ??= class {
  observe() {}
  unobserve() {}
  disconnect() {}
} as unknown as typeof ResizeObserver;
URL.createObjectURL ??= () => "blob:test";
URL.revokeObjectURL ??= () => {};

configure({ asyncUtilTimeout: 30_000 }); // a busy machine is no failure

afterEach(() => {
  cleanup();
  sessionStorage.clear();
  location.hash = "";
});
