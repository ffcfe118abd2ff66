// Builds the page to three files with fixed names, which are checked in and embedded in the program.
import { readFileSync } from 'node:fs';
import { defineConfig } from 'vite';

const BROWSERS = ['chrome123', 'firefox120', 'safari17.5'];

/** The licences of the libraries in app.js, which their texts require to be kept. */
function notices() {
  const text = ['preact', 'uplot'].map((name) => {
    const licence = readFileSync(new URL(`node_modules/${name}/LICENSE`, import.meta.url), 'utf8');
    return `${name}\n\n${licence.trim()}`;
  });
  return `/*! Contains these libraries:\n\n${text.join('\n\n')}\n*/`;
}

export default defineConfig({
  base: '/',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    target: BROWSERS,
    cssTarget: BROWSERS,
    outDir: '../crates/monitor/page',
    emptyOutDir: true,
    modulePreload: false,
    assetsInlineLimit: 0,
    sourcemap: false,
    reportCompressedSize: false,
    rolldownOptions: {
      output: {
        entryFileNames: 'app.js',
        assetFileNames: 'app[extname]',
        codeSplitting: false,
        postBanner: notices(),
      },
    },
  },
});
