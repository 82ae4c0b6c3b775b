#!/bin/sh
# Record a PostgreSQL by Debezium: make.sh JARS FOLDER, as root of a Debian with postgresql-15 and openjdk-17.
# JARS has debezium-embedded, debezium-api and debezium-connector-postgres 3.6.1.Final, and all that they need.
set -eu
jars=$1 folder=$2 here=$(dirname "$0") bin=/usr/lib/postgresql/15/bin port=55432
mkdir -p "$folder/postgres"
chown postgres "$folder/postgres"
options="-p $port -c wal_level=logical -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c TimeZone=UTC"
su postgres -c "$bin/initdb -D $folder/postgres -A trust -U postgres"
su postgres -c "$bin/pg_ctl -D $folder/postgres -w -o '$options' -l $folder/postgres/log start"
sql() { psql -h 127.0.0.1 -p $port -U postgres -v ON_ERROR_STOP=1 -q "$@"; }

sql <<'SQL'
CREATE TABLE orders (id int PRIMARY KEY, customer text, amount numeric(9,2), paid boolean, at timestamptz, day date,
    weight double precision, big bigint, doc jsonb, uid uuid);
ALTER TABLE orders REPLICA IDENTITY FULL;
CREATE TABLE items (order_id int, line smallint, title varchar(20), PRIMARY KEY (order_id, line));
INSERT INTO orders VALUES
    (1, 'Ada', 10.50, true, '2026-11-28 10:00:00.123456Z', '2026-11-28', 0.25, 9007199254740993, '{"a": 1}',
     '00000000-0000-0000-0000-000000000001'),
    (2, 'Grete', null, false, null, null, null, null, null, null),
    (3, 'ß', 3.00, null, '1969-12-31 23:59:59Z', '1969-12-31', -1.5, -1, '[]', null);
INSERT INTO items VALUES (1, 1, 'pen'), (1, 2, 'ink'), (2, 1, 'pad');
CREATE PUBLICATION p FOR TABLE orders, items WITH (publish = 'insert,update,delete,truncate');
SQL

record() {
    cat > "$folder/$1.properties" <<PROPERTIES
name=$1
connector.class=io.debezium.connector.postgresql.PostgresConnector
offset.storage=org.apache.kafka.connect.storage.MemoryOffsetBackingStore
database.hostname=127.0.0.1
database.port=$port
database.user=postgres
database.password=none
database.dbname=postgres
topic.prefix=shop
plugin.name=pgoutput
slot.name=$1
publication.name=p
skipped.operations=none
decimal.handling.mode=string
poll.interval.ms=100
$2
PROPERTIES
    mkfifo "$folder/$1.stop"
    java -cp "$jars/*" "$here/Record.java" "$folder/$1.properties" "$folder/$1.tsv" < "$folder/$1.stop" &
}
plain="key.converter.schemas.enable=false
value.converter.schemas.enable=false
table.include.list=public.orders,public.items"
record envelope "$plain
provide.transaction.metadata=true
heartbeat.interval.ms=2000"
record schemas "table.include.list=public.items"
record unwrapped "$plain
transforms=unwrap
transforms.unwrap.type=io.debezium.transforms.ExtractNewRecordState
transforms.unwrap.delete.tombstone.handling.mode=rewrite
transforms.unwrap.add.fields=op,lsn,source.ts_ms"
exec 3> "$folder/envelope.stop" 4> "$folder/schemas.stop" 5> "$folder/unwrapped.stop"
until [ "$(sql -At -c 'SELECT count(*) FROM pg_replication_slots WHERE active')" = 3 ]; do sleep 1; done
sleep 4

sql <<'SQL'
INSERT INTO orders VALUES
    (4, 'Lin', 4.44, true, '2026-11-28 12:00:00Z', '2026-02-28', 1e300, 4, '{"b": [1, 2]}', null);
UPDATE orders SET amount = 11.50 WHERE id = 1;
UPDATE orders SET amount = 12.50, paid = false WHERE id = 1;
UPDATE orders SET id = 20 WHERE id = 2;
DELETE FROM orders WHERE id = 3;
INSERT INTO orders (id, customer) VALUES (3, 'again');
BEGIN;
INSERT INTO orders (id, customer) VALUES (5, 'gone');
DELETE FROM orders WHERE id = 5;
INSERT INTO items VALUES (3, 1, 'cup'), (3, 2, 'jug');
COMMIT;
UPDATE items SET title = 'nib' WHERE order_id = 1;
DELETE FROM items WHERE order_id = 2;
UPDATE items SET line = 9 WHERE order_id = 1 AND line = 2;
TRUNCATE items;
INSERT INTO items VALUES (1, 1, 'new'), (7, 1, 'bag');
ALTER TABLE items ADD COLUMN price numeric(6,2);
UPDATE items SET price = 2.50 WHERE order_id = 7;
SQL
sleep 6
for table in orders items; do
    sql -At -c "SELECT json_agg(to_jsonb(r)) FROM (SELECT * FROM $table ORDER BY 1, 2) r" > "$folder/$table.json"
done
echo >&3; echo >&4; echo >&5
wait
su postgres -c "$bin/pg_ctl -D $folder/postgres -m fast stop"
