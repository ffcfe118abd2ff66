"""Reports over a table of sales that is larger than the caches, in the PostgreSQL of truth_postgresql.

A unit of work is one update of a product's stock and one query that scans and groups a week's sales.
"""

import truth_postgresql
from common import server
from truth_postgresql import check, serving

__all__ = ["Clients", "check", "prepare", "serving"]

# At size 1: 48 weeks of 19 MB each. A scan of more than a quarter of the shared buffers does not evict their content.
WEEKS = 48
SALES = 120_000
PRODUCTS = 40_000


def pick(words, often):
    """Returns SQL that draws one of these words: the larger `often`, the more frequent are the first ones."""
    words = words.split()
    return f"(array{words})[1 + floor(random() ^ {often} * {len(words)})::int]"


DESCRIPTION = pick("garden kitchen chair lamp small large warm soft strong oak steel cotton outdoor with for and easy to clean", 1.5)
TABLES = f"""
create table product(id int primary key, stock int not null, changed timestamp not null, description text not null)
    with (fillfactor = 80);
insert into product select n, 1000, timestamp '2026-01-01',
    (select string_agg({DESCRIPTION}, ' ') from generate_series(1, 20 + n % 20)) from generate_series(1, {PRODUCTS}) n;
create table sale(id bigint not null, week int not null, at timestamp not null, shop int not null, country text not null,
    product int not null, department text not null, quantity int not null, price numeric(10, 2) not null, customer text not null,
    note text not null) partition by list (week);
"""
NOTE = " || ' ' || ".join([
    "'order ' || n", pick("paid shipped returned open cancelled", 3), "'by'", pick("card invoice transfer voucher", 2),
    "'to the'", pick("door office shop neighbour station", 2)])


def week_of_sales(week, sales):
    """Returns SQL for a week's partition, with rows in the order of time."""
    return f"""
create table sale_{week} partition of sale for values in ({week});
insert into sale_{week} select {week * sales} + n, {week}, timestamp '2026-01-01' + {week} * interval '7 days' + n * interval '5 s',
    floor(random() ^ 2 * 300), {pick("DE FR NL AT BE PL IT ES SE DK", 2)}, 1 + floor(random() ^ 2 * {PRODUCTS}),
    {pick("garden kitchen bath office toys books music sports shoes", 1.5)}, 1 + floor(random() ^ 4 * 9),
    round((random() ^ 3 * 400)::numeric, 2),
    {pick("anna ben carla david eva felix greta hans ida jonas", 1)} || '.' || floor(random() * 90000) || '@example.com', {NOTE}
from generate_series(1, {sales}) n;
"""


def prepare(spec, folder):
    """Prepares the tables; every row is frozen, because the first scan would otherwise write."""
    sales = max(500, round(SALES * spec.get("size", 1.0)))
    script = spec.scratch / "tables.sql"
    script.write_text("select setseed(0.5);\n" + TABLES + "".join(week_of_sales(week, sales) for week in range(WEEKS))
                      + "vacuum (freeze, analyze);\n")
    with truth_postgresql.cluster(spec, folder):
        server.run("psql-tables", truth_postgresql.command(
            "psql", "-h", spec.scratch, "-U", "bench", "-d", "postgres", "-q", "-v", "ON_ERROR_STOP=1", "-o", "/dev/null",
            "-f", script), spec.scratch)


class Clients(truth_postgresql.Clients):
    """pgbench with the update and the query."""

    SCRIPT = f"""
\\set week random(0, {WEEKS - 1})
\\set product random_zipfian(1, {PRODUCTS}, 1.1)
update product set stock = stock - 1, changed = changed + interval '1 s' where id = :product;
select country, department, count(*), sum(price * quantity), max(quantity) from sale where week = :week group by country, department;
"""
