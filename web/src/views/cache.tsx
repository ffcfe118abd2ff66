// The ARC: the cache of blocks in memory.

import { Chart } from '../chart';
import { bytes, percent, rate } from '../format';
import { type Arc, arcs, hitRatio } from '../model';
import { Badge, Figures, Meanings, Scroll, Stale, useMonitor, Values } from '../ui';

const A = (name: string) => `poolwright_arc_${name}`;
const ACCESSES = A('accesses_total');

const STATES: [string, string][] = [
  ['mru', 'Used once (MRU)'], ['mfu', 'Used repeatedly (MFU)'], ['anon', 'Not written yet'], ['uncached', 'Not kept'],
  ['mru_ghost', 'Evicted from MRU'], ['mfu_ghost', 'Evicted from MFU'],
];

export function Cache() {
  const { items } = useMonitor();
  const list = arcs(items);
  return (
    <>
      <h2>Cache (ARC)</h2>
      {list.length === 0 && <p>No pool is open.</p>}
      {list.map((arc) => <ArcSection key={arc.item.key} arc={arc} />)}
      <Meanings
        terms={[
          ['ARC', 'The cache of blocks in memory. It keeps blocks that were used recently, and blocks that were used repeatedly.'],
          ['Demand, prefetch', 'Demand: a program waited for the block. Prefetch: the block was read because it may be needed soon.'],
          ['Hit ratio', 'The share of the accesses whose block was in memory.'],
          ['Evicted from MRU or MFU', 'Blocks without data that the ARC remembers. An access to one of them would have been a hit in a larger ARC.'],
        ]}
        metrics={[['Size', A('size_bytes')], ['Target', A('target_bytes')], ['Maximum', A('max_bytes')], ['Minimum', A('min_bytes')]]}
      />
    </>
  );
}

function ArcSection({ arc }: { arc: Arc }) {
  const { history, families } = useMonitor();
  const { item } = arc;
  const column = (name: string) => `${item.key}/${name}`;
  const since = hitRatio(arc.accesses.filter((access) => access.labels.type?.startsWith('demand')), (access) => access.values[ACCESSES]);
  const help = (name: string) => families.get(name)?.help;
  const size = (name: string): string | undefined => (item.values[A(name)] === undefined ? undefined : bytes(item.values[A(name)]));
  return (
    <section aria-label={`ARC of ${arc.title}`}>
      <h3 class="with-badges">
        ARC of {arc.title} <Stale item={item} />
        {item.values[A('no_grow')] === 1 && <Badge mood="warning">may not grow: memory is short</Badge>}
      </h3>
      <Figures figures={[
        ['Size', size('size_bytes'), help(A('size_bytes'))],
        ['Target', size('target_bytes'), help(A('target_bytes'))],
        ['Maximum', size('max_bytes'), help(A('max_bytes'))],
        ['Hit ratio now', percent(arc.hitRatio)],
        ['Hit ratio since start', since === undefined ? undefined : percent(since)],
      ]} />
      <div class="charts">
        <Chart title="Size" history={history} format={bytes} binary lines={[
          { column: column('size'), title: 'Size', colour: '--line-1' },
          { column: column('target'), title: 'Target', colour: '--line-2', dashed: true },
          { column: column('max'), title: 'Maximum', colour: '--line-3', dashed: true },
        ]} />
        <Chart title="Hit ratio of demand accesses" history={history} format={percent} top={1} lines={[
          { column: column('hitRatio'), title: 'Hit ratio', colour: '--line-1' },
        ]} />
      </div>
      <Accesses arc={arc} />
      <States arc={arc} />
      <details class="more">
        <summary>All figures of this ARC</summary>
        <Values item={item} />
      </details>
    </section>
  );
}

function Accesses({ arc }: { arc: Arc }) {
  const types = [...new Set(arc.accesses.map((access) => access.labels.type ?? ''))];
  if (types.length === 0) return null;
  const of = (type: string, result: string) => arc.accesses.find((access) => access.labels.type === type && access.labels.result === result);
  return (
    <Scroll label={`Accesses to the ARC of ${arc.title}`}>
      <table>
        <thead>
          <tr>
            <th scope="col">Accesses</th><th scope="col" class="num">Hits/s</th><th scope="col" class="num">Misses/s</th>
            <th scope="col" class="num">Hit ratio now</th><th scope="col" class="num">Hit ratio since the start</th>
          </tr>
        </thead>
        <tbody>
          {types.map((type) => {
            const same = arc.accesses.filter((access) => access.labels.type === type);
            return (
              <tr key={type}>
                <th scope="row">{type.replace('_', ': ')}</th>
                <td class="num">{rate(of(type, 'hit')?.rates[ACCESSES])}</td>
                <td class="num">{rate(of(type, 'miss')?.rates[ACCESSES])}</td>
                <td class="num">{percent(hitRatio(same, (access) => access.rates[ACCESSES]))}</td>
                <td class="num">{percent(hitRatio(same, (access) => access.values[ACCESSES]))}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </Scroll>
  );
}

/** The sizes of the states, as bars with a common scale. */
function States({ arc }: { arc: Arc }) {
  const sizes = STATES.flatMap(([state, title]) => {
    const size = arc.states.find((item) => item.labels.state === state)?.values.poolwright_arc_state_size_bytes;
    return size === undefined ? [] : [{ state, title, size }];
  });
  const largest = Math.max(1, ...sizes.map(({ size }) => size));
  if (sizes.length === 0) return null;
  return (
    <>
      <h4>States</h4>
      <ul class="bars">
        {sizes.map(({ state, title, size }) => (
          <li key={state}>
            <span>{title}</span>
            <span class="bar" aria-hidden="true"><span class={state.endsWith('ghost') ? 'ghost' : 'good'} style={{ width: `${(size / largest) * 100}%` }} /></span>
            <span class="num">{bytes(size)}</span>
          </li>
        ))}
      </ul>
    </>
  );
}
