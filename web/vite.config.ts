import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// The page is served under any path prefix, so everything in it is relative.
export default defineConfig({
  base: "./",
  plugins: [react()],
  build: {
    target: ["chrome123", "firefox121", "safari17.5"],
    outDir: process.env.GLOVEBOX_WEB_OUT ?? "build",
    emptyOutDir: true,
    assetsInlineLimit: 0, // nothing inline: the content security policy allows none
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    license: { fileName: "licenses.md" },
  },
  test: {
    environment: "jsdom",
    include: ["src/**/*.test.{ts,tsx}"],
    setupFiles: "./src/test/setup.ts",
    testTimeout: 120_000, // a busy machine is no failure
    hookTimeout: 120_000,
  },
  server: { proxy: { "^/(jobs|schedule|status|settings)": "http://127.0.0.1:8000" } },
});
