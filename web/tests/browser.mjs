// A browser whose pages must not ask other hosts and must not report errors.

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';
import { alerts, readings } from './fixture.mjs';

const SCREENSHOTS = new URL('../../target/web-screenshots/', import.meta.url).pathname;
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** A directory whose files replace those in the program, so that changes can be tried without building the program. */
const PAGE = process.env.POOLWRIGHT_PAGE;

/** What the browser reports for an answer with an error status, although the page handles it. */
const HANDLED = [/\/api\/v1\/alerts$/, /\/api\/v1\/(readings|families)$/];

export async function launch() {
  const executablePath = process.env.CHROMIUM ?? ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find(existsSync);
  if (executablePath === undefined) throw new Error('Chromium is missing: install the package chromium');
  mkdirSync(SCREENSHOTS, { recursive: true });
  return chromium.launch({ executablePath, args: process.getuid() === 0 ? ['--no-sandbox'] : [] });
}

/** Opens a tab, calls `body(page)`, and checks that the page kept the rules. */
export async function withPage(browser, origin, options, body) {
  const { width = 1280, scheme = 'light', mocked, unreachable = false } = options;
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme, reducedMotion: 'reduce' });
  const faults = [];
  await context.addInitScript(() => {
    addEventListener('securitypolicyviolation', (event) => console.error(`policy violation: ${event.violatedDirective} ${event.blockedURI}`));
  });
  context.on('request', (request) => {
    if (new URL(request.url()).origin !== origin) faults.push(`request to ${request.url()}`);
  });
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  page.on('pageerror', (error) => faults.push(`exception: ${error.stack}`));
  page.on('console', (message) => {
    if (!['error', 'warning'].includes(message.type())) return;
    const isHandled = /status of (404|401)/.test(message.text()) && HANDLED.some((path) => path.test(message.location().url));
    const isExpected = unreachable && /ERR_CONNECTION_REFUSED/.test(message.text());
    if (!isHandled && !isExpected) faults.push(`${message.type()}: ${message.text()}`);
  });
  if (PAGE !== undefined) await replacePage(context, origin);
  if (mocked !== undefined) await mock(context, mocked);
  try {
    await page.goto(`${origin}/`);
    await body(page);
    assert.deepEqual(faults, []);
  } finally {
    await context.close();
  }
}

/** Replaces the text of the page's files, but not their headers. */
async function replacePage(context, origin) {
  for (const [path, file] of [['/', 'index.html'], ['/app.js', 'app.js'], ['/app.css', 'app.css']]) {
    await context.route(`${origin}${path}`, async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, body: readFileSync(`${PAGE}/${file}`) });
    });
  }
}

/** Answers requests for data with those of the fixture. */
async function mock(context, options) {
  let step = 0;
  await context.route('**/api/v1/readings', (route) => {
    step += 1;
    return route.fulfill({ json: readings(step, options) });
  });
  await context.route('**/api/v1/alerts', (route) => route.fulfill({ json: alerts }));
}

/** Opens a view by its link. */
export async function open(page, title) {
  await page.getByRole('navigation', { name: 'Views' }).getByRole('link', { name: title }).click();
}

/** Takes a picture of the whole page for a person to look at. */
export async function picture(page, name) {
  await page.screenshot({ path: `${SCREENSHOTS}${name}.png`, fullPage: true });
}

/** Checks that the page does not scroll sideways, and what axe-core checks (WCAG 2.2 AA and good practice). */
export async function check(page, what) {
  const [content, window] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
  assert.ok(content <= window, `${what} is ${content} pixels wide in a window of ${window}`);
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  const found = violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => `${node.html} ${node.failureSummary}`).join('; ')}`);
  assert.deepEqual(found, [], what);
}
