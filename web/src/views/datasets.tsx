// The datasets of all pools.

import { useMemo, useState } from 'preact/hooks';
import { byteRate, bytes, count, factor, rate } from '../format';
import type { Item } from '../items';
import { type Dataset, datasets } from '../model';
import { type Column, Filter, Meanings, Scroll, Stale, Table, useMonitor, Values } from '../ui';

const D = (name: string) => `poolwright_dataset_${name}`;

/** Properties whose values are numbers of bytes. */
const SIZES = /^(recordsize|volblocksize|quota|refquota|reservation|refreservation|volsize|special_small_blocks)$/;

function property(item: Item): string {
  const { property, value, source } = item.labels;
  const number = Number(value);
  const text = SIZES.test(property ?? '') && value !== '' && Number.isFinite(number) ? bytes(number) : value;
  return `${property}=${text}${source === 'local' || source === undefined ? '' : ` (${source})`}`;
}

const COLUMNS: Column<Dataset>[] = [
  { id: 'name', title: 'Dataset', cell: ({ name, item }) => <>{name} <Stale item={item} /></>, sort: ({ name }) => name },
  size('used', 'Used', 'used_bytes'),
  size('available', 'Available', 'available_bytes'),
  size('referenced', 'Referenced', 'referenced_bytes'),
  value('ratio', 'Compression', 'compression_ratio', factor),
  value('snapshots', 'Snapshots', 'snapshots', count),
  size('snapshot-bytes', 'In snapshots', 'used_by_snapshots_bytes'),
  { id: 'read', title: 'Read', numeric: true, cell: ({ readRate }) => byteRate(readRate), sort: ({ readRate }) => readRate },
  { id: 'written', title: 'Written', numeric: true, cell: ({ writeRate }) => byteRate(writeRate), sort: ({ writeRate }) => writeRate },
  {
    id: 'properties', title: 'Properties that are set',
    cell: ({ properties }) => <ul class="chips">{properties.map((item) => <li key={item.key}>{property(item)}</li>)}</ul>,
    sort: ({ properties }) => properties.length,
  },
];

function value(id: string, title: string, name: string, format: (value: number | undefined) => string): Column<Dataset> {
  const get = ({ item }: Dataset) => item.values[D(name)];
  return { id, title, numeric: true, cell: (dataset) => format(get(dataset)), sort: get };
}

function size(id: string, title: string, name: string): Column<Dataset> {
  return value(id, title, name, bytes);
}

/** Columns that are shown although no dataset has a value, because rates are known only after two readings. */
const ALWAYS = ['name', 'read', 'written'];

/** The columns for which at least one dataset has a value. */
function present(rows: Dataset[]): Column<Dataset>[] {
  return COLUMNS.filter(({ id, sort }) => ALWAYS.includes(id)
    || rows.some((row) => sort?.(row) !== undefined && (id !== 'properties' || row.properties.length > 0)));
}

export function Datasets() {
  const { items } = useMonitor();
  const [filter, setFilter] = useState('');
  const all = useMemo(() => datasets(items), [items]);
  const words = filter.toLowerCase().split(/\s+/).filter((word) => word !== '');
  const shown = useMemo(() => {
    if (words.length === 0) return all;
    return all.filter(({ name, properties }) => {
      const text = `${name} ${properties.map(property).join(' ')}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
  }, [all, filter]);
  return (
    <>
      <h2>Datasets</h2>
      {all.length === 0 ? <p>No pool is open.</p> : (
        <>
          <div class="tools">
            <Filter label="Filter by name or property" value={filter} change={setFilter} />
            <span role="status">{count(shown.length)} of {count(all.length)} datasets</span>
          </div>
          <Table label="Datasets" rows={shown} columns={present(all)} keyOf={({ item }) => item.key} initial="name"
            details={({ item }) => <Values item={item} />} />
        </>
      )}
      <Mounts />
      <Meanings
        terms={[
          ['Dataset', 'A file system or a volume of a pool.'],
          ['Read, Written', 'Bytes that programs read from or wrote to the dataset in a second, since the previous readings.'],
          ['Properties that are set', 'Properties that are not at their default. In parentheses: where the value comes from, if it was not set on the dataset.'],
        ]}
        metrics={[
          ['Used', D('used_bytes')], ['Available', D('available_bytes')], ['Referenced', D('referenced_bytes')],
          ['Compression', D('compression_ratio')], ['Snapshots', D('snapshots')], ['In snapshots', D('used_by_snapshots_bytes')],
        ]}
      />
    </>
  );
}

/** The mounts of the user-space engine, with their requests. */
function Mounts() {
  const { items } = useMonitor();
  const mounts = items.get('mount') ?? [];
  if (mounts.length === 0) return null;
  const requests = (mount: Item) => (items.get('mount operation') ?? [])
    .filter((item) => item.labels.dir === mount.labels.dir && item.labels.dataset === mount.labels.dataset)
    .map((item) => ({ op: item.labels.op ?? '', rate: item.rates.poolwright_mount_requests_total }))
    .filter(({ rate }) => rate !== undefined && rate > 0)
    .sort((a, b) => (b.rate ?? 0) - (a.rate ?? 0));
  return (
    <section>
      <h3>Mounts of the user-space engine</h3>
      <Scroll label="Mounts">
        <table>
          <thead>
            <tr>
              <th scope="col">Directory</th><th scope="col">Dataset</th><th scope="col" class="num">Read</th>
              <th scope="col" class="num">Written</th><th scope="col">Requests in a second, most frequent first</th>
            </tr>
          </thead>
          <tbody>
            {mounts.map((mount) => (
              <tr key={mount.key}>
                <th scope="row">{mount.labels.dir} <Stale item={mount} /></th>
                <td>{mount.labels.dataset}</td>
                <td class="num">{byteRate(mount.rates.poolwright_mount_read_bytes_total)}</td>
                <td class="num">{byteRate(mount.rates.poolwright_mount_written_bytes_total)}</td>
                <td>{requests(mount).slice(0, 5).map(({ op, rate: value }) => `${op} ${rate(value)}`).join(', ') || 'none'}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}
