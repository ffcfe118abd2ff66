// The overview of all pools.

import { Chart } from '../chart';
import { byteRate, bytes, count, date, duration, latency, percent, rate, UNKNOWN } from '../format';
import { type Item, sum } from '../items';
import { arcs, engineTitle, type Pool, poolErrors, poolFlow, pools, V } from '../model';
import { Badge, Bar, Figures, Meanings, Stale, State, useMonitor } from '../ui';

/** With more pools than this, the overview has no charts. */
const CHARTS = 6;

const P = (name: string) => `poolwright_pool_${name}`;

export function Overview() {
  const { items } = useMonitor();
  const list = pools(items);
  return (
    <>
      <h2>Pools</h2>
      {list.length === 0 && (
        <p>The server knows no pool. It shows pools of the user-space engine as soon as <code>poolwright pool create</code> has
          made one, and pools of OpenZFS in the kernel as soon as they are imported.</p>
      )}
      <div class="cards">{list.map((pool) => <PoolCard key={pool.item.key} pool={pool} hasChart={list.length <= CHARTS} />)}</div>
      <Caches />
      <Meanings
        terms={[
          ['Pool', 'Storage made of one or more disks or files, from which datasets take their space.'],
          ['ONLINE, DEGRADED, FAULTED', 'ONLINE: all disks work. DEGRADED: a disk failed, and its data is still available from others. FAULTED, UNAVAIL or SUSPENDED: data cannot be used.'],
          ['Read, Written, Requests', 'What the disks of the pool do in a second, since the previous readings. The pool reads and writes less or more than programs do, because of the cache, compression and redundancy.'],
          ['Read latency, Write latency', 'The average time of a request to a disk. It is unknown (–) if there was none.'],
          ['Device errors', 'Reads and writes that failed, and blocks with a wrong checksum, summed over the disks of the pool.'],
        ]}
        metrics={[
          ['Allocated', P('allocated_bytes')], ['Free', P('free_bytes')], ['Fragmentation', P('fragmentation_ratio')],
          ['Data errors', P('data_errors')], ['Scrub: errors', P('scan_errors')], ['Lost files', P('file_faults')],
        ]}
      />
    </>
  );
}

function PoolCard({ pool, hasChart }: { pool: Pool; hasChart: boolean }) {
  const { history } = useMonitor();
  const { item } = pool;
  const { [P('size_bytes')]: size, [P('allocated_bytes')]: allocated, [P('free_bytes')]: free } = item.values;
  const flow = poolFlow(pool);
  const isOpen = pool.vdevs.length > 0;
  const id = `pool-${pool.engine}-${pool.name}`;
  const share = size === undefined || size === 0 || allocated === undefined ? undefined : allocated / size;
  return (
    <section class="card" aria-labelledby={id}>
      <header>
        <h3 id={id}>{pool.name}</h3>
        <State state={pool.state} />
        <Stale item={item} />
        <span class="muted">{engineTitle(pool.engine)}</span>
      </header>
      {pool.state === 'closed' && <p>No process has this pool open. Mount one of its datasets to see its figures.</p>}
      {share !== undefined && (
        <>
          <Bar share={share} label="Allocated" />
          <p class="under-bar">{bytes(allocated)} of {bytes(size)} allocated ({percent(share)}), {bytes(free)} free</p>
        </>
      )}
      <Figures figures={[
        ['Read', isOpen ? byteRate(flow.readBytes) : undefined],
        ['Written', isOpen ? byteRate(flow.writeBytes) : undefined],
        ['Requests', isOpen ? perSecond(sum([flow.reads, flow.writes])) : undefined],
        ['Read latency', isOpen ? latency(flow.readLatency) : undefined],
        ['Write latency', isOpen ? latency(flow.writeLatency) : undefined],
        ['Fragmentation', known(item.values[P('fragmentation_ratio')], percent)],
        ['Device errors', errors(pool)],
        ['Data errors', number(item.values[P('data_errors')])],
        ['Lost files', item.values[P('file_faults')] ? number(item.values[P('file_faults')]) : undefined],
        ['Last write of a transaction group', known(item.values[P('txg_sync_seconds')], latency)],
        ['Read-only', item.values[P('readonly')] === 1 ? 'yes' : undefined],
      ]} />
      <Scan item={item} />
      {hasChart && isOpen && (
        <Chart title="Bytes in a second" history={history} format={byteRate} binary lines={[
          { column: `${item.key}/readBytes`, title: 'Read', colour: '--line-1' },
          { column: `${item.key}/writeBytes`, title: 'Written', colour: '--line-2', dashed: true },
        ]} />
      )}
    </section>
  );
}

/** The value as text; undefined if it is not known. */
function known(value: number | undefined, format: (value: number) => string): string | undefined {
  return value === undefined ? undefined : format(value);
}

function perSecond(value: number | undefined): string {
  return value === undefined ? UNKNOWN : `${rate(value)}/s`;
}

/** A number that should be 0. */
function number(value: number | undefined) {
  if (value === undefined) return undefined;
  return value === 0 ? 'none' : <Badge mood="bad">{count(value)}</Badge>;
}

function errors(pool: Pool) {
  const kinds: [string, number | undefined][] = [
    ['read', poolErrors(pool, V.readErrors)], ['write', poolErrors(pool, V.writeErrors)], ['checksum', poolErrors(pool, V.checksumErrors)],
  ];
  if (kinds.every(([, value]) => value === undefined)) return undefined;
  const found = kinds.filter(([, value]) => value !== undefined && value > 0);
  if (found.length === 0) return 'none';
  return <Badge mood="bad">{found.map(([kind, value]) => `${count(value)} ${kind}`).join(', ')}</Badge>;
}

/** The running or last scrub or resilver. */
function Scan({ item }: { item: Item }) {
  const { updated } = useMonitor();
  const value = (name: string) => item.values[P(name)];
  const isScrub = value('scrub_running') === 1;
  const isResilver = value('resilver_running') === 1;
  const found = value('scan_errors') ?? 0;
  const errors = found === 0 ? 'no errors' : `${count(found)} ${found === 1 ? 'error' : 'errors'} that could not be repaired`;
  if (!isScrub && !isResilver) {
    const end = value('scrub_end_time_seconds');
    if (end !== undefined) return <p>Last scrub finished on {date(end)}: {errors}.</p>;
    if (value('scrub_canceled') === 1) return <p>The last scrub was canceled.</p>;
    return null;
  }
  const total = value('scan_to_examine_bytes') ?? 0;
  const examined = value('scan_examined_bytes') ?? 0;
  const share = total === 0 ? 0 : Math.min(1, examined / total);
  const start = value('scan_start_time_seconds');
  const elapsed = start === undefined || updated === undefined ? undefined : updated / 1000 - start;
  const left = elapsed === undefined || share < 0.01 ? undefined : (elapsed * (1 - share)) / share;
  const name = isScrub ? 'Scrub' : 'Resilver';
  return (
    <div class="scan">
      <p>
        {name} {value('scan_paused') === 1 ? 'paused' : 'running'}: {percent(share)} of {bytes(total)}, {errors}
        {left !== undefined && value('scan_paused') !== 1 && `, about ${duration(left)} left`}.
      </p>
      <div class="bar" role="img" aria-label={`${name}: ${percent(share)}`}><div class="scan-share" style={{ width: `${share * 100}%` }} /></div>
    </div>
  );
}

function Caches() {
  const { items } = useMonitor();
  const list = arcs(items);
  if (list.length === 0) return null;
  return (
    <>
      <h2>Caches</h2>
      <div class="cards">
        {list.map((arc) => (
          <section key={arc.item.key} class="card">
            <header>
              <h3><a href="#/cache">ARC of {arc.title}</a></h3>
              <Stale item={arc.item} />
            </header>
            <Figures figures={[
              ['Size', known(arc.item.values.poolwright_arc_size_bytes, bytes)],
              ['Target', known(arc.item.values.poolwright_arc_target_bytes, bytes)],
              ['Maximum', known(arc.item.values.poolwright_arc_max_bytes, bytes)],
              ['Hit ratio now', percent(arc.hitRatio)],
            ]} />
          </section>
        ))}
      </div>
    </>
  );
}
