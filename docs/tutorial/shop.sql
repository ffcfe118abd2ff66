-- The database of docs/tutorial.md: one million sales, 160 MB.
pragma journal_mode = wal;
create table sale (id integer primary key, customer integer, cents integer, note text);
insert into sale
    select value, abs(random() % 50000), abs(random() % 100000),
           printf('article %d, delivered on day %d, invoice %s, paid in full',
                  abs(random() % 3000), abs(random() % 365), hex(randomblob(40)))
    from generate_series(1, 1000000);
create index sale_customer on sale (customer);
