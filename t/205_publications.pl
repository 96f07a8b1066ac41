# Zheap tables are published as heap tables are: twins of both on a publisher,
# by publications of every kind, with every replica identity, to a subscriber
# whose tables are zheap and heap crosswise.  At the end of each step all that
# was subscribed is what was published, and heap's and zheap's rows are alike.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $pub = zheap_node('publisher', allows_streaming => 'logical', conf => "autovacuum = off\nlogical_decoding_work_mem = 64kB\nmax_replication_slots = 20\nmax_wal_senders = 20\n");
$pub->start;
my $sub = zheap_node('subscriber', conf => "autovacuum = off\nmax_logical_replication_workers = 20\nmax_worker_processes = 30\n");
$sub->start;
my $major = int($pub->safe_psql('postgres', 'SHOW server_version_num') / 10000);
$_->safe_psql('postgres', 'CREATE EXTENSION zheap_am') for $pub, $sub;

# schema h: heap here and zheap there; schema z: the other way round
my @side = ('h', 'z');
sub am { my ($side, $there) = @_; return ($side eq 'h') != $there ? 'heap' : 'zheap' }
my $tables = q{
CREATE TABLE S.d (id int PRIMARY KEY, k int, v int, t text, x text);
ALTER TABLE S.d ALTER x SET STORAGE EXTERNAL;
CREATE TABLE S.f (id int, k int, v int, t text, x text);
ALTER TABLE S.f REPLICA IDENTITY FULL;
CREATE TABLE S.i (id text NOT NULL, k int NOT NULL, v int, x text);
ALTER TABLE S.i ALTER id SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX i_k ON S.i (k);
ALTER TABLE S.i REPLICA IDENTITY USING INDEX i_k;
CREATE TABLE S.n (id int, v int);
ALTER TABLE S.n REPLICA IDENTITY NOTHING;
CREATE TABLE S.rowfilter (id int PRIMARY KEY, v int, t text);
CREATE TABLE S.columns (id int PRIMARY KEY, v int, secret text, t text);
CREATE TABLE S.p (id int, k int, v int, PRIMARY KEY (id, k)) PARTITION BY LIST (k);
CREATE TABLE S.p0 PARTITION OF S.p FOR VALUES IN (0);
CREATE TABLE S.p1 PARTITION OF S.p FOR VALUES IN (1, 2);
CREATE TABLE S.g (id int PRIMARY KEY, v int, g int GENERATED ALWAYS AS (v * 2) STORED);
CREATE SCHEMA S_all;
CREATE TABLE S_all.a (id int PRIMARY KEY, v int);
CREATE TABLE S_all.b (id int PRIMARY KEY, v text)};
for my $side (@side)
{
	for my $there (0, 1)
	{
		(my $sql = "SET default_table_access_method = " . am($side, $there) . "; CREATE SCHEMA S; $tables") =~ s/\bS(?=[._;])/$side/g;
		$sql =~ s/CREATE TABLE $side\.p \(.*?\n.*\n.*\n/CREATE TABLE $side.p (id int, k int, v int, PRIMARY KEY (id, k));\n/ if $there;
		($there ? $sub : $pub)->safe_psql('postgres', $sql);
	}
}

# every transaction on both sides alike, rows in the order of the key
sub change
{
	my ($sql) = @_;
	for my $side (@side)
	{
		(my $s = "SET enable_seqscan = off; $sql") =~ s/\bS(?=[._])/$side/g;
		$s =~ s/GID/gid_$side/g;
		$pub->safe_psql('postgres', $s);
	}
}
sub caught_up
{
	my ($what) = @_;
	$pub->wait_for_catchup($_) for 'main', 'second';
	for my $t ('d', 'f', 'i', 'n', 'g', 'p', 'columns', 'rowfilter')
	{
		my %got = map { ($_, $sub->safe_psql('postgres', "SELECT * FROM $_.$t r ORDER BY r::text")) } @side;
		is($got{z} eq $got{h} ? '' : substr($got{z}, 0, 500), '', "$what: $t of a zheap publisher is that of a heap publisher");
		next if $t eq 'n' || $t eq 'columns' || $t eq 'rowfilter';
		for my $side (@side)
		{
			my $want = $pub->safe_psql('postgres', "SELECT * FROM $side.$t r ORDER BY r::text");
			is($got{$side} eq $want ? '' : substr($got{$side}, 0, 500), '', "$what: all of $side.$t");
		}
	}
	for my $side (@side)
	{
		is($sub->safe_psql('postgres', "SELECT * FROM $side.rowfilter ORDER BY 1"), $pub->safe_psql('postgres', "SELECT * FROM $side.rowfilter WHERE id % 2 = 0 ORDER BY 1"), "$what: rows of $side.rowfilter");
		is($sub->safe_psql('postgres', "SELECT id, v, secret, t FROM $side.columns ORDER BY 1"), $pub->safe_psql('postgres', "SELECT id, v, NULL, t FROM $side.columns ORDER BY 1"), "$what: columns of $side.columns");
		for my $t ('a', 'b')
		{
			is($sub->safe_psql('postgres', "SELECT * FROM ${side}_all.$t ORDER BY 1"), $pub->safe_psql('postgres', "SELECT * FROM ${side}_all.$t ORDER BY 1"), "$what: ${side}_all.$t by its schema");
		}
	}
}

change(q{INSERT INTO S.d SELECT g, g, g, 't' || g, repeat('x', g * 100) FROM generate_series(1, 40) g;
INSERT INTO S.f SELECT * FROM S.d; INSERT INTO S.i SELECT repeat(md5(g::text), g), g, g, 'x' FROM generate_series(1, 120) g;
INSERT INTO S.rowfilter SELECT g, g, 't' FROM generate_series(1, 20) g; INSERT INTO S.columns SELECT g, g, 'secret', 't' FROM generate_series(1, 20) g;
INSERT INTO S.p SELECT g, g % 3, g FROM generate_series(1, 30) g; INSERT INTO S.g SELECT g, g FROM generate_series(1, 10) g; INSERT INTO S_all.a SELECT g, g FROM generate_series(1, 10) g});
for my $side (@side)
{
	$pub->safe_psql('postgres', "CREATE PUBLICATION main_$side FOR TABLE $side.d, $side.f, $side.i, $side.p, $side.rowfilter WHERE (id % 2 = 0), $side.columns (id, v, t), $side.g WITH (publish_via_partition_root);
CREATE PUBLICATION schema_$side FOR TABLES IN SCHEMA ${side}_all; CREATE PUBLICATION n_$side FOR TABLE $side.n WITH (publish = 'insert')");
}
my $conn = $pub->connstr . ' dbname=postgres';
$sub->safe_psql('postgres', "CREATE SUBSCRIPTION main CONNECTION '$conn' PUBLICATION main_h, main_z WITH (streaming = " . ($major >= 16 ? 'parallel' : 'on') . ", two_phase);
CREATE SUBSCRIPTION second CONNECTION '$conn' PUBLICATION schema_h, schema_z, n_h, n_z WITH (binary)");
$sub->wait_for_subscription_sync($pub, $_) for 'main', 'second';
caught_up('copied');

change(q{UPDATE S.d SET v = v + 1; UPDATE S.d SET k = -k WHERE id < 10; UPDATE S.d SET x = repeat('y', 5000) WHERE id IN (3, 30); UPDATE S.d SET v = 0 WHERE id = 30;
UPDATE S.d SET id = id + 1000 WHERE id IN (4, 31, 39); DELETE FROM S.d WHERE id BETWEEN 5 AND 8; INSERT INTO S.d VALUES (500, 1, 1, NULL, NULL) ON CONFLICT (id) DO UPDATE SET v = 9;
INSERT INTO S.d VALUES (500, 1, 1, NULL, repeat('z', 3000)) ON CONFLICT (id) DO UPDATE SET x = EXCLUDED.x; INSERT INTO S.d VALUES (500) ON CONFLICT DO NOTHING});
caught_up('primary key');
change(q{UPDATE S.f SET v = v + 1 WHERE id < 20; UPDATE S.f SET x = repeat('y', 5000) WHERE id = 30; UPDATE S.f SET t = NULL WHERE id = 30; UPDATE S.f SET x = NULL WHERE id = 30; DELETE FROM S.f WHERE id > 35;
ALTER TABLE S.f ALTER x SET STORAGE EXTERNAL; UPDATE S.f SET x = repeat('w', 9000) WHERE id = 1; UPDATE S.f SET v = 77 WHERE id = 1; DELETE FROM S.f WHERE id = 1;
UPDATE S.i SET v = v + 1; UPDATE S.i SET k = k + 1000 WHERE k > 100; UPDATE S.i SET x = repeat('i', 5000) WHERE k < 5; DELETE FROM S.i WHERE k BETWEEN 90 AND 100; UPDATE S.i SET id = id || 'z' WHERE k = 80;
INSERT INTO S.n SELECT g, g FROM generate_series(1, 100) g; UPDATE S.n SET v = 0 WHERE id < 10; DELETE FROM S.n WHERE id = 5});
caught_up('other identities');
change(q{UPDATE S.rowfilter SET id = id + 101 WHERE id IN (2, 3); UPDATE S.rowfilter SET v = 0; DELETE FROM S.rowfilter WHERE id > 18; UPDATE S.columns SET secret = 'other' WHERE id < 5; UPDATE S.columns SET t = 'other' WHERE id < 3; DELETE FROM S.columns WHERE id > 18; INSERT INTO S.columns VALUES (100, 1, 's', 't');
UPDATE S.p SET v = 0 WHERE k = 1; UPDATE S.p SET k = (k + 1) % 3 WHERE id < 10; DELETE FROM S.p WHERE id > 25; UPDATE S.g SET v = v + 1; UPDATE S_all.a SET v = v + 1; INSERT INTO S_all.b VALUES (1, repeat('b', 4000)); DELETE FROM S_all.a WHERE id = 1});
caught_up('row filters, column lists, partitions, schemas');
change(q{BEGIN; UPDATE S.d SET v = 1; SAVEPOINT a; DELETE FROM S.d WHERE id = 20; ROLLBACK TO a; UPDATE S.d SET v = 2 WHERE id = 21; PREPARE TRANSACTION 'GID'});
change(q{COMMIT PREPARED 'GID'; BEGIN; DELETE FROM S.d; PREPARE TRANSACTION 'GID'; ROLLBACK PREPARED 'GID'});
caught_up('prepared transactions');
change(q{BEGIN; INSERT INTO S.d SELECT g, g, g, 'big', CASE WHEN g % 50 = 0 THEN repeat(md5(g::text), 100) END FROM generate_series(10000, 12000) g;
SAVEPOINT a; UPDATE S.d SET v = v + 1 WHERE id >= 10000; SAVEPOINT b; DELETE FROM S.d WHERE id >= 11000; ROLLBACK TO b; UPDATE S.d SET x = repeat('x', 2500) WHERE id BETWEEN 11000 AND 11050; RELEASE a; DELETE FROM S.d WHERE id BETWEEN 10000 AND 10100; COMMIT;
BEGIN; INSERT INTO S.d SELECT g, g, g, 'gone', 'x' FROM generate_series(20000, 22000) g; UPDATE S.d SET v = 5; ROLLBACK});
ok($pub->poll_query_until('postgres', q{SELECT sum(stream_txns) >= 2 FROM pg_stat_replication_slots WHERE slot_name = 'main'}), 'large transactions were streamed');
caught_up('streamed');
change(q{VACUUM FULL S.d; ALTER TABLE S.f ALTER v TYPE bigint; UPDATE S.d SET v = v + 1 WHERE id < 50; TRUNCATE S.g, S_all.a; INSERT INTO S.g VALUES (1, 1)});
caught_up('rewritten and truncated');

# FOR ALL TABLES, a table created later, one that becomes zheap, a change of access method between
$pub->safe_psql('postgres', "CREATE DATABASE every");
$pub->safe_psql('every', 'CREATE EXTENSION zheap_am; CREATE PUBLICATION everything FOR ALL TABLES; CREATE TABLE e (id int PRIMARY KEY, v text) USING zheap; INSERT INTO e VALUES (1, 1)');
$sub->safe_psql('postgres', 'CREATE TABLE e (id int PRIMARY KEY, v text) USING zheap; CREATE TABLE later (id int PRIMARY KEY) USING zheap');
$sub->safe_psql('postgres', q{CREATE SUBSCRIPTION every CONNECTION '} . $pub->connstr . q{ dbname=every' PUBLICATION everything});
$sub->wait_for_subscription_sync($pub, 'every');
$pub->safe_psql('every', 'CREATE TABLE later (id int PRIMARY KEY) USING heap; INSERT INTO e VALUES (2, 2)');
$sub->safe_psql('postgres', 'ALTER SUBSCRIPTION every REFRESH PUBLICATION');
$sub->wait_for_subscription_sync($pub, 'every');
$pub->safe_psql('every', q{INSERT INTO later VALUES (1); ALTER TABLE later SET ACCESS METHOD zheap; INSERT INTO later VALUES (2); ALTER TABLE e SET ACCESS METHOD heap; UPDATE e SET v = 'heap' WHERE id = 1; ALTER TABLE e SET ACCESS METHOD zheap; UPDATE e SET v = 'zheap' WHERE id = 2});
$pub->wait_for_catchup('every');
is($sub->safe_psql('postgres', 'SELECT * FROM e ORDER BY 1; SELECT * FROM later ORDER BY 1'), "1|heap\n2|zheap\n1\n2", 'FOR ALL TABLES');

# a crash of the publisher with a streamed transaction and a prepared one
change(q{BEGIN; UPDATE S.d SET v = v + 10 WHERE id > 11500; PREPARE TRANSACTION 'GID'});
kill_server($pub);
ok(start_after_kill($pub), 'the publisher is up again');
change(q{COMMIT PREPARED 'GID'; UPDATE S.d SET v = v + 1 WHERE id < 12});
caught_up('after a crash');

$sub->safe_psql('postgres', "DROP SUBSCRIPTION $_") for 'main', 'second', 'every';
check_tables($_, 'at the end') for $pub, $sub;
$_->stop for $sub, $pub;
log_is_clean($_) for $pub, $sub;
done_testing();
