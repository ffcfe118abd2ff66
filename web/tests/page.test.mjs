// The page in Debian's Chromium, served by the real program.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { check, launch, open, picture, withPage } from './browser.mjs';
import { Exporter, MountedPool, PATIENCE, Place, until } from './exporter.mjs';

const WIDTHS = [360, 768, 1280];
const SCHEMES = ['light', 'dark'];
const LIMIT = { timeout: 3 * PATIENCE };

let browser;
let place;
let pool;
let exporter;

before(async () => {
  browser = await launch();
  place = new Place();
  pool = new MountedPool(place);
  exporter = await Exporter.start(place);
}, LIMIT);

after(async () => {
  await browser?.close();
  await exporter?.stop();
  try {
    await pool?.remove();
  } finally {
    place?.remove();
  }
}, LIMIT);

const view = (options, body) => withPage(browser, exporter.origin, options, body);
const row = (page, name) => page.getByRole('row', { name });

/** A cell's text, by the title of its column. */
async function cell(page, table, rowName, column) {
  const region = page.getByRole('region', { name: table, exact: true });
  await region.waitFor();
  const titles = await region.locator('thead th').allTextContents();
  const index = titles.findIndex((title) => title.replace(/ [▲▼]$/, '') === column);
  assert.ok(index >= 0, `${column} is in ${titles}`);
  return region.getByRole('row', { name: rowName }).locator('th, td').nth(index).textContent();
}

/** Whether a text such as `1.50M/s` or `12` is more than 0. */
const isPositive = (text) => Number.parseFloat(text.replace(/^</, '')) > 0;

describe('all views of a pool under load', () => {
  for (const width of WIDTHS) {
    for (const scheme of SCHEMES) {
      test(`${width} pixels, ${scheme}`, LIMIT, () => view({ width, scheme }, async (page) => {
        await page.getByRole('heading', { name: 'tank', exact: true }).waitFor();
        await page.getByText('ONLINE', { exact: true }).first().waitFor();
        await page.getByText(/ of .* allocated/).waitFor();
        await until('rates are known', async () => (await page.getByText(/^[\d.]+[BKM]\/s$/).count()) > 0);
        for (const title of ['Overview', 'Disks', 'Datasets', 'Cache', 'Sources', 'All metrics']) {
          await open(page, title);
          await page.locator('main h2').first().waitFor();
          await picture(page, `live-${title.toLowerCase().replace(' ', '-')}-${width}-${scheme}`);
          await check(page, `${title} at ${width} in ${scheme}`);
        }
        const views = await page.getByRole('navigation', { name: 'Views' }).getByRole('link').allTextContents();
        assert.ok(!views.includes('Plan'), `without plans, there is no view of plans: ${views}`);
      }));
    }
  }
});

describe('all views of pools of the kernel, from a fixture', () => {
  for (const width of WIDTHS) {
    for (const scheme of SCHEMES) {
      test(`${width} pixels, ${scheme}`, LIMIT, () => view({ width, scheme, mocked: {} }, async (page) => {
        await page.getByRole('heading', { name: 'data', exact: true }).waitFor();
        await page.getByText('DEGRADED', { exact: true }).first().waitFor();
        await page.getByText(/Scrub running: 36 % of 840G, 1 error /).waitFor();
        await page.getByText('17 write').waitFor();
        await page.getByText(/A critical alert fires/).waitFor();
        await until('rates are known', async () => (await page.getByText(/^[\d.]+[BKM]\/s$/).count()) > 0);
        for (const title of ['Overview', 'Disks', 'Datasets', 'Cache', 'Latency and sizes', 'Plan', 'Alerts (2)', 'Sources']) {
          await open(page, title);
          if (title === 'Latency and sizes') await page.getByRole('table', { name: 'Latency of nvme-A' }).waitFor();
          if (title === 'Plan') await page.getByText('above the interval').waitFor();
          await picture(page, `kernel-${title.toLowerCase().replace(/ \(2\)/, '').replaceAll(' ', '-')}-${width}-${scheme}`);
          await check(page, `${title} at ${width} in ${scheme}`);
        }
      }));
    }
  }
});

test('rates follow the load', LIMIT, () => view({}, async (page) => {
  await open(page, 'Disks');
  const disks = 'Vdevs of pool tank';
  for (const column of ['Writes/s', 'Written', 'Write latency']) {
    await until(`${column} is more than 0`, async () => isPositive(await cell(page, disks, /a\.img/, column)));
  }
  await open(page, 'Datasets');
  for (const column of ['Read', 'Written']) {
    await until(`${column} is more than 0`, async () => isPositive(await cell(page, 'Datasets', /tank\/db/, column)));
  }
  await page.getByText('recordsize=16K').waitFor();
  await open(page, 'Cache');
  await until('the ARC is accessed', async () => isPositive(await cell(page, 'Accesses to the ARC of pool tank', /demand: data/, 'Hits/s')));
  await until('the chart is drawn', async () => (await page.locator('.plot canvas').count()) === 2);
}));

test('a hung owner is shown as stale, with the age of its values, and recovers', LIMIT, () => view({ width: 768, scheme: 'dark' }, async (page) => {
  const stale = page.getByText('Stale: source user-pool of pool tank.');
  await page.getByRole('heading', { name: 'tank', exact: true }).waitFor();
  pool.hang();
  try {
    await stale.waitFor({ timeout: PATIENCE });
    await page.getByText(/^stale: \d+ s old$/).first().waitFor();
    assert.ok(await page.getByText(/ of .* allocated/).isVisible(), 'the last values stay');
    await check(page, 'a stale source');
    await picture(page, 'stale-overview');
    await open(page, 'Sources');
    await row(page, /user-pool/).getByText('hangs').waitFor();
    await picture(page, 'stale-sources');
    await open(page, 'Disks');
    assert.equal(await cell(page, 'Vdevs of pool tank', /a\.img/, 'Writes/s'), '–');
  } finally {
    pool.resume();
  }
  await stale.waitFor({ state: 'detached', timeout: PATIENCE });
  await until('rates are known again', async () => isPositive(await cell(page, 'Vdevs of pool tank', /a\.img/, 'Writes/s')));
}));

test('the keyboard reaches everything, and shows where it is', LIMIT, () => view({ mocked: {} }, async (page) => {
  await page.getByRole('heading', { name: 'Pools' }).waitFor();
  const focused = () => page.evaluate(() => {
    const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
    return { name: document.activeElement.textContent, tag: document.activeElement.tagName, outline: outlineStyle === 'none' ? 0 : Number.parseFloat(outlineWidth) };
  });
  await page.keyboard.press('Tab');
  assert.equal((await focused()).name, 'Skip to the content');
  await picture(page, 'keyboard-skip-link');
  await page.keyboard.press('Enter');
  assert.equal((await focused()).tag, 'MAIN');
  await page.reload();
  await page.getByRole('heading', { name: 'Pools' }).waitFor();
  const seen = [];
  for (let press = 0; press < 40 && seen.at(-1) !== 'Datasets'; press += 1) {
    await page.keyboard.press('Tab');
    const { name, outline } = await focused();
    assert.ok(outline >= 2, `the focus on ${name} is visible`);
    seen.push(name);
  }
  assert.ok(seen.includes('Pause') && seen.includes('Overview') && seen.at(-1) === 'Datasets', seen.join());
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Datasets' }).waitFor();
  const used = page.getByRole('button', { name: 'Used' });
  await used.focus();
  for (const order of ['descending', 'ascending']) {
    await page.keyboard.press('Enter');
    await page.locator(`th[aria-sort=${order}]`, { hasText: 'Used' }).waitFor();
  }
  await page.getByRole('button', { name: 'Details of data', exact: true }).focus();
  await page.keyboard.press('Enter');
  await page.locator('.details').getByText('Space that the dataset refers to.').waitFor();
  await check(page, 'details of a dataset');
  await page.getByRole('region', { name: 'Datasets', exact: true }).focus();
  assert.ok((await focused()).outline >= 2, 'the focus on a table is visible');
}));

test('the colours can be chosen, and the choice is kept', LIMIT, () => view({ scheme: 'light' }, async (page) => {
  const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await back();
  await page.getByLabel('Colours').selectOption('dark');
  assert.notEqual(await back(), light);
  await page.reload();
  assert.notEqual(await back(), light);
  await page.getByLabel('Colours').selectOption('system');
  assert.equal(await back(), light);
}));

test('a paused page and a hidden tab ask nothing', LIMIT, () => view({}, async (page) => {
  let requests = 0;
  page.on('request', (request) => {
    if (request.url().endsWith('/readings')) requests += 1;
  });
  const goesOn = () => {
    const before = requests;
    return until('the page asks again', () => requests > before + 1);
  };
  const stands = async () => {
    await page.waitForLoadState('networkidle');
    const before = requests;
    await page.waitForTimeout(5000);
    assert.equal(requests, before);
  };
  await goesOn();
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByText('Paused', { exact: true }).waitFor();
  await stands();
  await page.getByRole('button', { name: 'Pause' }).click();
  await goesOn();
  const hide = (hidden) => page.evaluate((hidden) => {
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event('visibilitychange'));
  }, hidden);
  await hide(true);
  await stands();
  await hide(false);
  await goesOn();
}));

test('a server that ends is reported, and its return is noticed', LIMIT, () => view({ width: 360, unreachable: true }, async (page) => {
  await page.getByText('Live', { exact: true }).waitFor();
  await exporter.stop();
  const message = page.getByText(/The server cannot be reached since/);
  await message.waitFor({ timeout: PATIENCE });
  await page.getByText('Not connected').waitFor();
  await page.getByText(/values from .* ago/).waitFor();
  await check(page, 'a server that ended');
  await picture(page, 'unreachable-360');
  exporter = await Exporter.start(place, { listen: new URL(exporter.origin).host });
  await message.waitFor({ state: 'detached', timeout: PATIENCE });
}));

test('a server with a token gets it from the form', LIMIT, async () => {
  const token = '0123456789abcdef0123';
  const own = new Place();
  const guarded = await Exporter.start(own, { token });
  try {
    await withPage(browser, guarded.origin, { width: 360 }, async (page) => {
      const input = page.getByLabel('Token', { exact: true });
      await input.waitFor();
      await check(page, 'the form for the token');
      await picture(page, 'token-360');
      await input.fill('not-the-token-that-it-wants');
      await page.getByRole('button', { name: 'Continue' }).click();
      await page.getByText('The server refused the token.').waitFor();
      await check(page, 'a refused token');
      await input.fill(token);
      await page.keyboard.press('Enter');
      await page.getByText('The server knows no pool.').waitFor();
      await page.reload();
      await page.getByText('The server knows no pool.').waitFor();
      const stored = await page.evaluate(() => [sessionStorage.length, JSON.stringify(localStorage), document.cookie]);
      assert.equal(stored[0], 1);
      assert.ok(!stored[1].includes(token) && stored[2] === '', 'the token is only in the storage of the session');
    });
  } finally {
    await guarded.stop();
    own.remove();
  }
});

test('ten thousand datasets are divided into pages, sorted and filtered', LIMIT, () => view({ mocked: { number: 10_000 } }, async (page) => {
  await page.evaluate(() => {
    globalThis.longest = 0;
    new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) globalThis.longest = Math.max(globalThis.longest, duration);
    }).observe({ type: 'longtask', buffered: true });
  });
  await open(page, 'Datasets');
  const status = page.getByText('10,000 of 10,000 datasets');
  await status.waitFor({ timeout: PATIENCE });
  const rows = page.getByRole('region', { name: 'Datasets', exact: true }).locator('tbody tr');
  assert.equal(await rows.count(), 50);
  await picture(page, 'many-datasets');
  await page.getByRole('button', { name: 'Last' }).click();
  await row(page, /customer-09999/).waitFor();
  await page.getByRole('button', { name: 'Snapshots', exact: true }).click();
  assert.equal(await cell(page, 'Datasets', await rows.first().locator('th').textContent(), 'Snapshots'), '29');
  await page.getByLabel('Filter by name or property').fill('customer-0123 1M');
  await page.getByText('5 of 10,000 datasets').waitFor();
  assert.equal(await rows.count(), 5);
  await page.getByLabel('Filter by name or property').fill('nothing has this name');
  await page.getByText('0 of 10,000 datasets').waitFor();
  await page.getByLabel('Filter by name or property').fill('');
  await until('another answer is read', () => page.getByText('Live', { exact: true }).isVisible());
  console.log(`longest task with 10,000 datasets: ${Math.round(await page.evaluate(() => globalThis.longest))} ms`);
}));
