// Functions of the page that need no browser.

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createServer } from 'vite';
import { readings } from './fixture.mjs';

const vite = await createServer({
  root: new URL('..', import.meta.url).pathname,
  appType: 'custom',
  logLevel: 'error',
  optimizeDeps: { noDiscovery: true },
  server: { middlewareMode: true, hmr: false, ws: false, watch: null },
});
after(() => vite.close());
const [format, { History }, { Rates, averageOf }, model] = await Promise.all(
  ['format', 'history', 'items', 'model'].map((name) => vite.ssrLoadModule(`/src/${name}.ts`)),
);

test('bytes have the suffixes of zfs', () => {
  const expected = [
    [0, '0B'], [1, '1B'], [1023, '1023B'], [1024, '1K'], [1536, '1.50K'], [16384, '16K'], [12.34 * 2 ** 20, '12.3M'],
    [123.4 * 2 ** 30, '123G'], [1000 * 2 ** 30, '1000G'], [2 ** 40, '1T'], [1.5 * 2 ** 60, '1.50E'], [5000 * 2 ** 60, '5000E'],
  ];
  for (const [value, text] of expected) assert.equal(format.bytes(value), text);
  assert.equal(format.bytes(undefined), '–');
});

test('times and ratios have units', () => {
  const latencies = [[0, '0 s'], [5e-10, '0 s'], [3.5e-7, '350 ns'], [1.25e-5, '13 µs'], [0.0012, '1.2 ms'], [3, '3.0 s']];
  for (const [value, text] of latencies) assert.equal(format.latency(value), text);
  const durations = [[0, '0 s'], [59.6, '1 min'], [303, '5 min 3 s'], [15000, '4 h 10 min'], [86400 * 12, '12 d'], [-1, '0 s']];
  for (const [value, text] of durations) assert.equal(format.duration(value), text);
  assert.equal(format.percent(0.004), '0.4 %');
  assert.equal(format.percent(0.84), '84 %');
  assert.equal(format.rate(0.004), '<0.01');
});

test('metrics are formatted by their names', () => {
  const expected = [
    ['poolwright_pool_free_bytes', 1024, '', '1K'],
    ['poolwright_vdev_read_time_seconds_total', 0.5, '', '500 ms'],
    ['poolwright_pool_fragmentation_ratio', 0.41, '', '41 %'],
    ['poolwright_dataset_compression_ratio', 1.5, '', '1.50x'],
    ['poolwright_pool_open', 1, 'Whether the pool is imported.', 'yes'],
    ['poolwright_vdev_reads_total', 12345, '', '12,345'],
  ];
  for (const [name, value, help, text] of expected) assert.equal(format.metric(name, value, help), text, name);
  assert.match(format.metric('poolwright_pool_import_time_seconds', 1.7e9), /^2023-11-1\d \d\d:\d\d$/);
  assert.equal(format.metricTitle('poolwright_vdev_read_bytes_total', 'vdev'), 'read');
});

const answer = (values, { age = 0, up = true, counts } = {}) => ({
  sources: [{ source: 'user-pool', pool: 'tank', up, age_seconds: age }],
  resources: [{
    type: 'vdev', labels: { engine: 'user', pool: 'tank', vdev: 'a' }, values,
    ...(counts === undefined ? {} : { histograms: { h: { bounds: [1], counts } } }),
  }],
});
const COUNTER = 'poolwright_vdev_reads_total';

test('a rate is the increase by the time between the reads of the source', () => {
  const rates = new Rates();
  const rate = (values, now, options) => rates.update(answer({ [COUNTER]: values }, options), now).get('vdev')[0].rates[COUNTER];
  assert.equal(rate(100, 10_000), undefined, 'one reading has no rate');
  assert.equal(rate(300, 12_000), 100);
  assert.equal(rate(300, 14_000, { age: 2 }), 100, 'the same reading keeps its rate');
  assert.equal(rate(700, 17_000, { age: 1 }), 100, 'the age counts: read at 16 s');
  assert.equal(rate(700, 20_000, { age: 4, up: false }), undefined, 'a stale source has no rate');
  assert.equal(rate(900, 26_000), 20, 'after it has recovered, the rate is that of the time between');
  assert.equal(rate(5, 28_000), undefined, 'the counter started again');
  assert.equal(rate(25, 30_000), 10);
});

test('latency is the time by the number of requests', () => {
  const item = { rates: { time: 0.5, number: 100, none: 0 } };
  assert.equal(averageOf(item, 'time', 'number'), 0.005);
  assert.equal(averageOf(item, 'time', 'none'), undefined);
  assert.equal(averageOf(item, 'missing', 'number'), undefined);
});

test('a histogram of the last minute forgets what is older', () => {
  const rates = new Rates();
  const recent = (counts, now) => rates.update(answer({}, { counts }), now).get('vdev')[0].recent.h?.counts;
  assert.equal(recent([10, 0], 0), undefined);
  assert.deepEqual(recent([10, 5], 30_000), [0, 5]);
  assert.deepEqual(recent([20, 5], 60_000), [10, 5]);
  assert.deepEqual(recent([20, 6], 90_000), [10, 1]);
  assert.equal(recent([1, 0], 92_000), undefined, 'the counters started again');
});

test('the history is bounded in time, points and columns, and shows pauses as gaps', () => {
  const history = new History();
  for (let second = 0; second < 4000; second += 1) history.add(second * 1000, 1000, new Map([['a', second]]));
  assert.equal(history.times.length, 1800);
  assert.equal(history.column('a').at(-1), 3999);
  assert.equal(history.column('a').length, 1800);
  history.add(4_100_000, 1000, new Map([['b', 1]]));
  assert.deepEqual(history.times.slice(-3), [3999, 3999.001, 4100]);
  assert.deepEqual(history.column('a').slice(-3), [3999, null, null]);
  assert.deepEqual(history.column('b').slice(-2), [null, 1]);
  history.add(9_000_000, 1000, new Map([['b', 2]]));
  assert.deepEqual(history.times, [9000], 'half an hour later, the old points are gone');
  history.add(9_001_000, 1000, new Map(Array.from({ length: 5000 }, (_, index) => [`c${index}`, index])));
  const kept = Array.from({ length: 5000 }, (_, index) => history.column(`c${index}`).at(-1)).filter((value) => value !== null);
  assert.ok(kept.length < 1000 && kept.length > 100, `${kept.length} columns`);
});

test('the tree of vdevs follows their places', () => {
  const rates = new Rates();
  rates.update(readings(1), 1000);
  const [pool] = model.pools(rates.update(readings(2), 3000));
  assert.equal(pool.state, 'DEGRADED');
  const expected = [['data', 0, true], ['mirror-0', 1, true], ['nvme-A', 2, false], ['nvme-B', 2, false], ['nvme-log', 1, false]];
  assert.deepEqual(pool.vdevs.map(({ title, depth, hasChildren }) => [title, depth, hasChildren]), expected);
  assert.equal(model.poolFlow(pool).writes, (3 * 900) / 2, 'the root counts the requests of the pool');
  assert.ok(Math.abs(model.poolFlow(pool).writeLatency - 0.003) < 1e-9);
  assert.equal(model.poolErrors(pool, model.V.writeErrors), 17);
  assert.deepEqual([...model.shortTitles(['/a/x', '/b/x', '/c/y']).values()], ['/a/x', '/b/x', 'y']);
});
