// Histograms of latencies and request sizes, as heat maps.

import { useState } from 'preact/hooks';
import type { Histogram } from '../api';
import { bytes, count, latency } from '../format';
import type { Item, Items } from '../items';
import { ofPool, pools, shortTitles } from '../model';
import { Choice, Meanings, Scroll, Stale, useMonitor } from '../ui';

const LATENCY = 'poolwright_vdev_latency_seconds';
const SIZE = 'poolwright_vdev_request_size_bytes';

type Period = 'recent' | 'all';

/** Whether a source gives histograms. */
export function hasHistograms(items: Items): boolean {
  return items.has('vdev latency') || items.has('vdev request size');
}

export function Histograms() {
  const { items } = useMonitor();
  const [period, setPeriod] = useState<Period>('recent');
  const [chosen, setChosen] = useState('');
  const list = pools(items).filter((pool) => ofPool(items, 'vdev latency', pool.item).length + ofPool(items, 'vdev request size', pool.item).length > 0);
  const pool = list.find((pool) => pool.item.key === chosen) ?? list[0];
  if (pool === undefined) return <><h2>Latency and sizes</h2><p>No source has histograms.</p></>;
  const latencies = ofPool(items, 'vdev latency', pool.item);
  const sizes = ofPool(items, 'vdev request size', pool.item);
  const vdevs = [...new Set([...latencies, ...sizes].map((item) => item.labels.vdev ?? ''))];
  const titles = shortTitles(vdevs);
  const of = (all: Item[], vdev: string) => all.filter((item) => item.labels.vdev === vdev);
  return (
    <>
      <h2>Latency and sizes</h2>
      <p>Each row shows how the requests of one kind are distributed: the stronger the colour of a cell, the larger its share of the row.</p>
      <div class="tools">
        {list.length > 1 && <Choice label="Pool" value={pool.item.key} options={list.map((pool) => [pool.item.key, pool.name])} change={setChosen} />}
        <Choice label="Requests of" value={period} options={[['recent', 'the last minute'], ['all', 'the time since the import']]} change={setPeriod} />
        <Stale item={pool.item} />
      </div>
      {vdevs.map((vdev) => (
        <section key={vdev} aria-label={`Histograms of ${vdev}`}>
          <h3>{titles.get(vdev)}</h3>
          <HeatMap title={`Latency of ${titles.get(vdev)}`} first="Part of the time" rows={of(latencies, vdev)} metric={LATENCY} label="queue" period={period} format={latency} />
          <HeatMap title={`Request sizes of ${titles.get(vdev)}`} first="Operation" rows={of(sizes, vdev)} metric={SIZE} label="op" period={period} format={sizeBound} />
        </section>
      ))}
      <Meanings
        terms={[
          ['total read, total write', 'From the request to its end.'],
          ['disk read, disk write', 'The time at the device.'],
          ['sync, async, scrub, trim, rebuild', 'The time in that queue, or requests of that kind. A program waits for synchronous requests.'],
          ['Columns', 'The upper bound: requests in the column “1.0 ms” took at most 1.0 ms, and longer than the column to its left. Those in the column “<4K” have fewer than 4K bytes.'],
        ]}
        metrics={[['Latency', LATENCY], ['Request sizes', SIZE]]}
      />
    </>
  );
}

/** The bounds of sizes are one less than powers of 2. */
function sizeBound(bound: number): string {
  return Number.isInteger(Math.log2(bound + 1)) ? `<${bytes(bound + 1)}` : bytes(bound);
}

interface MapProps {
  title: string; first: string; rows: Item[]; metric: string; label: string; period: Period; format: (value: number) => string;
}

function HeatMap({ title, first, rows, metric, label, period, format }: MapProps) {
  const lines = rows.flatMap((item) => {
    const histogram: Histogram | undefined = period === 'recent' ? item.recent[metric] : item.histograms?.[metric];
    const total = histogram?.counts.reduce((sum, number) => sum + number, 0) ?? 0;
    return histogram === undefined || total === 0 ? [] : [{ name: item.labels[label] ?? '', histogram, total }];
  });
  const [line] = lines;
  if (rows.length === 0) return null;
  if (period === 'recent' && rows.every((item) => item.recent[metric] === undefined)) {
    return <p class="muted">{title}: known after the next readings.</p>;
  }
  if (line === undefined) return <p class="muted">{title}: no requests.</p>;
  const used = line.histogram.counts.map((_, index) => lines.some(({ histogram }) => (histogram.counts[index] ?? 0) > 0));
  const from = used.indexOf(true);
  const to = used.lastIndexOf(true) + 1;
  const { bounds } = line.histogram;
  const heads = line.histogram.counts.map((_, index) => (index < bounds.length ? format(bounds[index] ?? 0) : 'more'));
  return (
    <Scroll label={title}>
      <table class="heat">
        <caption>{title}</caption>
        <thead>
          <tr>
            <th scope="col">{first}</th>
            <th scope="col" class="num">Requests</th>
            {heads.slice(from, to).map((head) => <th key={head} scope="col" class="num">{head}</th>)}
          </tr>
        </thead>
        <tbody>
          {lines.map(({ name, histogram, total }) => (
            <tr key={name}>
              <th scope="row">{name.replaceAll('_', ' ')}</th>
              <td class="num">{count(total)}</td>
              {histogram.counts.slice(from, to).map((number, index) => <Cell key={heads[from + index]} number={number} total={total} />)}
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

function Cell({ number, total }: { number: number; total: number }) {
  if (number === 0) return <td class="num" />;
  const share = number / total;
  const text = share < 0.01 ? '<1 %' : `${Math.round(share * 100)} %`;
  // The square root makes small shares visible.
  return <td class="num cell" title={`${count(number)} requests`} style={{ '--share': `${(Math.sqrt(share) * 100).toFixed(0)}%` }}>{text}</td>;
}
