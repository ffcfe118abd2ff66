// Plans against the present.

import { date, metric as format, UNKNOWN } from '../format';
import type { Item, Items } from '../items';
import { Badge, Meanings, Scroll, useMonitor } from '../ui';

const P = (name: string) => `poolwright_plan_${name}`;

/** Whether the exporter compares a plan with the present. */
export function hasPlans(items: Items): boolean {
  return items.has('plan') || items.has('plan property') || items.has('plan promise');
}

/** Names of all plans. */
function plans(items: Items): string[] {
  const types = ['plan', 'plan role', 'plan property', 'plan promise'];
  return [...new Set(types.flatMap((type) => (items.get(type) ?? []).map((item) => item.labels.plan ?? '')))];
}

export function Plans() {
  const { items } = useMonitor();
  return (
    <>
      <h2>Plan against present</h2>
      {plans(items).map((plan) => <PlanSection key={plan} plan={plan} />)}
      <Meanings
        terms={[
          ['Plan', 'What poolwright tune recommends for a database: properties for each role of its files, and the figures that it expects.'],
          ['Role', 'Files of one kind, such as tables or logs.'],
          ['Promise', 'The value that the plan expects, with the interval that contains it with a probability of 95 %.'],
        ]}
        metrics={[
          ['As planned', P('property_kept')], ['Other block size', P('files_with_other_block_size')],
        ]}
      />
    </>
  );
}

function PlanSection({ plan }: { plan: string }) {
  const { items } = useMonitor();
  const of = (type: string) => (items.get(type) ?? []).filter((item) => item.labels.plan === plan);
  const properties = of('plan property');
  const differing = properties.filter((item) => item.values[P('property_kept')] === 0).length;
  const created = of('plan')[0]?.values[P('created_time_seconds')];
  return (
    <section aria-label={`Plan ${plan}`}>
      <h3 class="with-badges">
        {plan}
        {properties.length > 0 && (differing === 0
          ? <Badge mood="good">all properties as planned</Badge>
          : <Badge mood="warning">{differing} of {properties.length} properties differ</Badge>)}
      </h3>
      {created !== undefined && <p>Made on {date(created)}.</p>}
      <PlanTable label={`Properties of plan ${plan}`} heads={['Role', 'Dataset', 'Property', 'Planned', 'Present', 'Result']} rows={properties.map((item) => [
        item.labels.role, where(item), item.labels.property, item.labels.planned, item.labels.present || UNKNOWN,
        item.values[P('property_kept')] === 0 ? <Badge mood="warning">differs</Badge> : <Badge mood="good">as planned</Badge>,
      ])} />
      <PlanTable label={`Promises of plan ${plan}`} heads={['Role', 'Dataset', 'Figure', 'Promised', 'Interval (95 %)', 'Present', 'Result']} rows={of('plan promise').map(promise)} />
      <PlanTable label={`Block sizes of plan ${plan}`} heads={['Role', 'Dataset', 'Examined files', 'Other block size']} rows={of('plan role')
        .filter((item) => item.values[P('examined_files')] !== undefined)
        .map((item) => [item.labels.role, where(item), item.values[P('examined_files')], item.values[P('files_with_other_block_size')] ?? UNKNOWN])} />
    </section>
  );
}

function where(item: Item): string {
  return item.labels.dataset || 'not on ZFS';
}

function promise(item: Item): Cells {
  const value = (name: string) => item.values[P(name)];
  const [low, high, present] = [value('promised_low'), value('promised_high'), value('present_value')];
  const number = (value: number | undefined) => format('', value);
  let result: Cells[number] = UNKNOWN;
  if (present !== undefined && low !== undefined && high !== undefined) {
    if (present < low) result = <Badge mood="warning">below the interval</Badge>;
    else if (present > high) result = <Badge mood="warning">above the interval</Badge>;
    else result = <Badge mood="good">within</Badge>;
  }
  const interval = low === undefined || high === undefined ? UNKNOWN : `${number(low)} to ${number(high)}`;
  return [item.labels.role, where(item), item.labels.metric?.replaceAll('_', ' '), number(value('promised_value')), interval, number(present), result];
}

type Cells = (preact.ComponentChildren)[];

function PlanTable({ label, heads, rows }: { label: string; heads: string[]; rows: Cells[] }) {
  if (rows.length === 0) return null;
  return (
    <Scroll label={label}>
      <table>
        <thead><tr>{heads.map((head) => <th key={head} scope="col">{head}</th>)}</tr></thead>
        <tbody>
          {rows.map((cells, row) => (
            <tr key={row}>{cells.map((cell, index) => (index === 0 ? <th key={index} scope="row">{cell}</th> : <td key={index}>{cell}</td>))}</tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}
