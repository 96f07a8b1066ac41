# Indexed columns changed in place, and other parties that find rows by their
# index: apply of a logical subscription by the whole row, beside local
# transactions; foreign keys by an index over the referencing column, in READ
# COMMITTED and REPEATABLE READ; the planner's look at the ends of an index;
# parallel VACUUM; a tablespace changed in a pipeline.  A heap twin's answers are
# right.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $pub = PostgreSQL::Test::Cluster->new('publisher');
$pub->init(allows_streaming => 'logical');
$pub->start;
my $sub = zheap_node('subscriber', conf => q{
autovacuum = off
zheap.update_indexed_in_place = on
});
$sub->start;
sub one { return $sub->safe_psql('postgres', $_[0]) }
one('CREATE EXTENSION zheap_am;' . keyed_allow());

my $marked = q{SELECT count(*) > 0 FROM generate_series(0, pg_relation_size('%1$s') / 8192 - 1) b, zheap_page_items('%1$s', b) WHERE 'stale' = ANY (flags)};
sub rows_are_marked { my ($table) = @_; return is(one(sprintf $marked, $table), 't', "rows of $table changed in place") }

# --- a subscription that finds rows as a whole: on 16 and later by the index.
# Half of the rows are there twice.
my @twins = qw(z h);
for my $name (@twins)
{
	my $columns = '(id int, b int, a int, t text)';
	$pub->safe_psql('postgres', "CREATE TABLE $name $columns; ALTER TABLE $name REPLICA IDENTITY FULL;
		INSERT INTO $name SELECT g / 2, g % 5, 0, 't' FROM generate_series(1, 300) g; INSERT INTO $name SELECT * FROM $name WHERE id < 75");
	one("CREATE TABLE $name $columns USING " . ($name eq 'z' ? 'zheap' : 'heap') . "; ALTER TABLE $name REPLICA IDENTITY FULL; CREATE INDEX ${name}_b ON $name (b)");
}
$pub->safe_psql('postgres', 'CREATE PUBLICATION p FOR ALL TABLES');
one(q{CREATE SUBSCRIPTION s CONNECTION '} . ($pub->connstr . ' dbname=postgres') . q{' PUBLICATION p});
$sub->wait_for_subscription_sync($pub, 's');
one(q{CALL keyed_allow('z')});

sub on_pub
{
	my ($sql) = @_;
	$pub->safe_psql('postgres', join ';', map { $sql =~ s/\bT\b/$_/gr } @twins);
	return;
}

sub applied
{
	my ($what) = @_;
	$pub->wait_for_catchup('s');
	my ($z, $h) = map { one("SELECT * FROM $_ ORDER BY id, b, a, t") } @twins;
	return is($z, $h, "a subscription: $what");
}

applied('copied');
on_pub('UPDATE T SET b = b + 1 WHERE id % 3 = 0');
applied('new keys');
rows_are_marked('z');
on_pub('UPDATE T SET b = b - 1 WHERE id % 3 = 0; UPDATE T SET a = a + 1 WHERE id % 2 = 0');
applied('the old keys again');
on_pub('BEGIN; UPDATE T SET b = 7 WHERE id = 5; UPDATE T SET b = 8 WHERE id = 5; SAVEPOINT s; UPDATE T SET b = 9 WHERE id = 5; ROLLBACK TO s; UPDATE T SET b = 7 WHERE id = 5; DELETE FROM T WHERE id = 6 AND b = 2; COMMIT');
applied('a row several times');
on_pub('DELETE FROM T WHERE id % 9 = 0; UPDATE T SET b = 3 WHERE id % 9 = 1');
applied('rows deleted');
my $id = 100;
for my $local ('UPDATE T SET b = b + 50 WHERE id = ID', 'UPDATE T SET b = b + 50 WHERE id = ID; UPDATE T SET b = b - 50 WHERE id = ID', 'DELETE FROM T WHERE id = ID')
{
	for my $end (qw(COMMIT ROLLBACK))
	{
		for my $change ('UPDATE T SET b = b + 7 WHERE id = ID', 'DELETE FROM T WHERE id = ID')
		{
			$id++ if $id % 9 == 0;
			my $s = session($sub);
			ask($s, 'BEGIN; ' . join '; ', map { $local =~ s/\bT\b/$_/gr =~ s/\bID\b/$id/gr } @twins);
			on_pub($change =~ s/\bID\b/$id/gr);
			ok($sub->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type LIKE 'logical replication%worker' AND wait_event_type = 'Lock'}), "apply waits for: $local");
			ask($s, $end);
			finish_session($s);
			applied("$change beside $local, $end");
			$id++;
		}
	}
}
one('DROP SUBSCRIPTION s');
check_tables($sub, 'after apply');

# --- foreign keys: rows that refer are found by an index whose keys change in place
for my $am (qw(zheap heap))
{
	one(qq{
SET default_table_access_method = $am;
CREATE TABLE ${am}_p (id int PRIMARY KEY);
INSERT INTO ${am}_p SELECT generate_series(1, 200);
CREATE TABLE ${am}_cascade (n int, p int REFERENCES ${am}_p ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE ${am}_null (n int, p int REFERENCES ${am}_p ON DELETE SET NULL ON UPDATE CASCADE);
CREATE TABLE ${am}_refuse (n int, p int REFERENCES ${am}_p);
INSERT INTO ${am}_cascade SELECT g, g FROM generate_series(1, 100) g;
INSERT INTO ${am}_null SELECT g, g FROM generate_series(1, 100) g;
INSERT INTO ${am}_refuse SELECT g, g FROM generate_series(101, 110) g;
CREATE INDEX ON ${am}_cascade (p); CREATE INDEX ON ${am}_null (p); CREATE INDEX ON ${am}_refuse (p)});
}
one("CALL keyed_allow('zheap_$_')") for qw(cascade null refuse);

# on both; the answer is that of heap
sub both
{
	my ($sql, $what) = @_;
	my %answer;
	for my $am (qw(heap zheap))
	{
		my $s = session($sub);
		my $a = ask($s, 'SET enable_seqscan = off; SET enable_bitmapscan = off; ' . ($sql =~ s/@/${am}_/gr));
		finish_session($s);
		$a .= "\n" . one("SELECT '$_', * FROM ${am}_$_ ORDER BY n, p") for qw(cascade null refuse);
		$answer{$am} = $a =~ s/\b(zheap|heap)_//gr;
	}
	return is($answer{zheap}, $answer{heap}, "foreign keys: $what");
}
both('UPDATE @cascade SET p = p + 1 WHERE p < 100; UPDATE @null SET p = p + 1 WHERE p < 100; UPDATE @refuse SET p = p + 10', 'other rows are referred to');
rows_are_marked("zheap_$_") for qw(cascade null refuse);
both('DELETE FROM @p WHERE id IN (1, 2, 50, 101)', 'what nobody refers to any more, and what somebody does');
both('DELETE FROM @p WHERE id = 115', 'what is referred to by a new key');
both('UPDATE @p SET id = id + 1000 WHERE id IN (60, 61)', 'a cascade changes keys itself');
both('UPDATE @p SET id = id - 1000 WHERE id > 1000', 'back to the old ones');
both('DELETE FROM @p WHERE id IN (60, 61)', 'and they go');
both('BEGIN; UPDATE @cascade SET p = 70 WHERE p = 80; SAVEPOINT s; DELETE FROM @p WHERE id IN (70, 80); ROLLBACK TO s; DELETE FROM @p WHERE id = 80; COMMIT', 'savepoints');
both('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM @p; UPDATE @null SET p = 71 WHERE p = 72; DELETE FROM @p WHERE id IN (71, 72); COMMIT', 'own changes in REPEATABLE READ');
# a snapshot from before another session's change of the key
for my $sql ('DELETE FROM @p WHERE id = 30', 'DELETE FROM @p WHERE id = 31', 'DELETE FROM @p WHERE id = 116', 'DELETE FROM @p WHERE id = 106')
{
	my %answer;
	for my $am (qw(heap zheap))
	{
		my $s = session($sub);
		ask($s, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM ${am}_p");
		one("UPDATE ${am}_cascade SET p = 31 WHERE p = 30; UPDATE ${am}_refuse SET p = 106 WHERE p = 116");
		my $a = ask($s, $sql =~ s/@/${am}_/gr);
		ask($s, 'COMMIT');
		finish_session($s);
		# unless the row is gone that it referred to
		$sub->psql('postgres', "UPDATE ${am}_$_") for 'cascade SET p = 30 WHERE p = 31', 'refuse SET p = 116 WHERE p = 106';
		$a .= "\n" . one("SELECT '$_', * FROM ${am}_$_ ORDER BY n, p") for qw(cascade null refuse);
		$answer{$am} = $a =~ s/\b(zheap|heap)_//gr;
	}
	is($answer{zheap}, $answer{heap}, "foreign keys: $sql beside an older snapshot");
}
check_tables($sub, 'after foreign keys');

# --- parallel VACUUM sweeps, and the planner looks at the ends of an index that
# old entries stand at
one(q{
CREATE TABLE v (id int PRIMARY KEY, k int, a int, t text) USING zheap;
INSERT INTO v SELECT g, g, g, 't' FROM generate_series(1, 3000) g;
CREATE INDEX v_k ON v (k); CREATE INDEX v_a ON v (a, k); CREATE INDEX v_t ON v (t);
CALL keyed_allow('v');
ANALYZE v;
UPDATE v SET k = k - 5000, a = a + 5000 WHERE id > 1500;
UPDATE v SET k = k + 5000, a = a - 5000 WHERE id % 2 = 0 AND id > 1500;
DELETE FROM v WHERE id % 10 = 3;
});
rows_are_marked('v');
# more than the statistics know: the planner asks the index
one('EXPLAIN SELECT FROM v WHERE k > 100000 AND a < -100000');
is(one('SELECT min(k), max(k), min(a), max(a) FROM v'), '-3499|3000|1|7999', 'ends of indexes');
my $left;
for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
{
	one('SET min_parallel_index_scan_size = 0; SET max_parallel_maintenance_workers = 2; VACUUM (PARALLEL 2) v');
	one('CREATE TABLE tick (); DROP TABLE tick');
	$left = one(sprintf $marked, 'v');
	last if $left eq 'f';
	select undef, undef, undef, 0.1;
}
is($left, 'f', 'parallel VACUUM clears marks');
is(one(q{SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(t), sum(k), sum(a) FROM v WHERE k > -10000}),
	one(q{SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT count(t), sum(k), sum(a) FROM v}), 'all rows are there');
check_tables($sub, 'after parallel VACUUM');

# --- SET TABLESPACE, first in a pipeline, is in no transaction block yet: the
# indexes stay, so no key changes in place, and a rollback leaves no entries
$sub->safe_psql('postgres', q{
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE there LOCATION '';});
one(q{
CREATE TABLE p (id int, k int) USING zheap;
CREATE INDEX p_k ON p (k);
INSERT INTO p SELECT g, g FROM generate_series(1, 100) g;
CALL keyed_allow('p');});
$sub->pgbench('-n -M extended -t 1', 2, [qr{processed: 0/1}], [qr/cannot add rows to table "p"/], 'a key after SET TABLESPACE',
	{ '125_pipeline' => q{\startpipeline
ALTER TABLE p SET TABLESPACE there;
UPDATE p SET k = k + 500 WHERE id <= 10;
SELECT 1 / 0;
\endpipeline
}});
is(one('SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM p WHERE k BETWEEN 500 AND 600'), 0, 'no row by a key that never was');
check_tables($sub, 'after SET TABLESPACE');

$sub->stop;
$pub->stop;
log_is_clean($sub);
done_testing();
