# Subscriptions to zheap tables that t/205_publications doesn't have: origin = none between
# two servers that subscribe to each other (16), failover slots that a standby
# synchronizes and serves after its promotion (17); rows that only a zheap page
# can hold; an idle slot, which keeps no undo.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $conf = "wal_level = logical\nmax_wal_senders = 10\nmax_replication_slots = 10\nautovacuum = off\n";
my $a = zheap_node('a', conf => $conf, allows_streaming => 'logical');
my $b = zheap_node('b', conf => $conf, allows_streaming => 'logical');
$_->start for $a, $b;
my $major = int($a->safe_psql('postgres', 'SHOW server_version_num') / 10000);
$_->safe_psql('postgres', 'CREATE EXTENSION zheap_am') for $a, $b;
my $conn = $a->connstr . ' dbname=postgres';

# --- an idle slot: changes behind it leave no undo, and the view doesn't name it
$a->safe_psql('postgres', q{CREATE TABLE i (id int PRIMARY KEY, v int) USING zheap; INSERT INTO i SELECT g, 0 FROM generate_series(1, 100) g;
SELECT pg_create_logical_replication_slot('idle', 'pgoutput')});
$a->safe_psql('postgres', 'UPDATE i SET v = v + 1; DELETE FROM i WHERE id > 90') for 1 .. 3;
undo_quiet($a, 'behind an idle slot');
is($a->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_zheap_undo_holders WHERE kind LIKE '%slot%'}), '0', 'the slot holds none');
is($a->safe_psql('postgres', q{SELECT restart_lsn < pg_current_wal_lsn(), catalog_xmin IS NOT NULL, xmin IS NULL FROM pg_replication_slots}), 't|t|t', 'it is behind, and holds catalogs only');
$a->safe_psql('postgres', q{SELECT pg_drop_replication_slot('idle')});

# --- a row of narrow and wide columns by turns: heap would have to pad it
my $columns = join ', ', map { ("c$_ \"char\"", "w$_ bigint") } 1 .. 600;
my $values = join ', ', map { ("'x'", $_) } 1 .. 600;
$a->safe_psql('postgres', "CREATE TABLE wide (id int PRIMARY KEY, $columns) USING zheap; CREATE TABLE wide_h (id int PRIMARY KEY, $columns) USING zheap; ALTER TABLE wide REPLICA IDENTITY FULL; CREATE PUBLICATION wide FOR TABLE wide; CREATE PUBLICATION wide_h FOR TABLE wide_h");
$b->safe_psql('postgres', "CREATE TABLE wide (id int PRIMARY KEY, $columns) USING zheap; CREATE TABLE wide_h (id int PRIMARY KEY, $columns) USING heap;
CREATE SUBSCRIPTION wide CONNECTION '$conn' PUBLICATION wide; CREATE SUBSCRIPTION wide_h CONNECTION '$conn' PUBLICATION wide_h WITH (disable_on_error)");
$b->wait_for_subscription_sync($a, $_) for 'wide', 'wide_h';
$a->safe_psql('postgres', "INSERT INTO wide VALUES (1, $values), (2, $values); UPDATE wide SET w7 = -7 WHERE id = 1; DELETE FROM wide WHERE id = 2");
$a->wait_for_catchup('wide');
is($b->safe_psql('postgres', 'SELECT md5(t::text) FROM wide t'), $a->safe_psql('postgres', 'SELECT md5(t::text) FROM wide t'), 'a row larger than any of heap');
my $log = -s $b->logfile;
$a->safe_psql('postgres', "INSERT INTO wide_h VALUES (1, $values)");
ok($b->poll_query_until('postgres', q{SELECT NOT subenabled FROM pg_subscription WHERE subname = 'wide_h'}), 'a heap table cannot take it');
like(slurp_file($b->logfile, $log), qr/ERROR:  row is too big: size \d+, maximum size \d+/, 'and says so');
is($b->safe_psql('postgres', 'SELECT count(*) FROM wide_h'), '0', 'nothing of it is there');
$b->safe_psql('postgres', 'DROP SUBSCRIPTION wide; DROP SUBSCRIPTION wide_h');

# --- two servers that subscribe to each other, what came from the other left out
SKIP: {
	skip 'no origin = none before 16', 3 if $major < 16;
	my $table = 'CREATE TABLE two (id int PRIMARY KEY, v int, x text) USING zheap; ALTER TABLE two ALTER x SET STORAGE EXTERNAL; CREATE PUBLICATION two FOR TABLE two';
	$_->safe_psql('postgres', $table) for $a, $b;
	$b->safe_psql('postgres', "CREATE SUBSCRIPTION from_a CONNECTION '$conn' PUBLICATION two WITH (origin = none, copy_data = false)");
	$a->safe_psql('postgres', "CREATE SUBSCRIPTION from_b CONNECTION '" . $b->connstr . " dbname=postgres' PUBLICATION two WITH (origin = none, copy_data = false)");
	my $both = sub {
		my ($what) = @_;
		$a->wait_for_catchup('from_a');
		$b->wait_for_catchup('from_b');
		$a->wait_for_catchup('from_a');
		my ($x, $y) = map { $_->safe_psql('postgres', 'SELECT id, v, md5(x) FROM two ORDER BY id') } $a, $b;
		is($x, $y, $what);
		return $x;
	};
	$a->safe_psql('postgres', q{INSERT INTO two SELECT g, 0, CASE WHEN g % 5 = 0 THEN repeat('a', 5000) END FROM generate_series(1, 20) g});
	$b->safe_psql('postgres', q{INSERT INTO two SELECT g, 0, CASE WHEN g % 5 = 0 THEN repeat('b', 5000) END FROM generate_series(101, 120) g});
	$both->('rows of either');
	# each changes what the other has made; a change that came back would count twice
	$a->safe_psql('postgres', q{UPDATE two SET v = v + 1 WHERE id > 100; UPDATE two SET x = repeat('c', 6000) WHERE id = 115; DELETE FROM two WHERE id = 101});
	$a->wait_for_catchup('from_a');
	$b->safe_psql('postgres', q{UPDATE two SET v = v + 1; UPDATE two SET id = 300 WHERE id = 1; DELETE FROM two WHERE id = 2});
	like($both->('changes of either'), qr/^3\|1\|.*^102\|2\|.*^300\|1\|/ms, 'each once');
	$b->safe_psql('postgres', 'DROP SUBSCRIPTION from_a');
	$a->safe_psql('postgres', 'DROP SUBSCRIPTION from_b');
}

# --- a failover slot
SKIP: {
	skip 'no failover slots before 17', 4 if $major < 17;
	$a->safe_psql('postgres', q{CREATE TABLE f (id int PRIMARY KEY, v int, x text) USING zheap; INSERT INTO f SELECT g, 0, 'x' FROM generate_series(1, 100) g; CREATE PUBLICATION f FOR TABLE f});
	$b->safe_psql('postgres', 'CREATE TABLE f (id int PRIMARY KEY, v int, x text) USING zheap');
	my $standby = zheap_standby($a, name => 'standby', slot => 'phys', feedback => 1);
	$standby->append_conf('postgresql.conf', "primary_conninfo = '$conn'\n");
	$standby->restart;
	set_conf($a, synchronized_standby_slots => 'phys');
	$b->safe_psql('postgres', "CREATE SUBSCRIPTION f CONNECTION '$conn' PUBLICATION f WITH (failover)");
	$b->wait_for_subscription_sync($a, 'f');
	$a->safe_psql('postgres', q{UPDATE f SET v = v + 1 WHERE id < 50; DELETE FROM f WHERE id = 60; UPDATE f SET x = repeat('y', 5000) WHERE id = 61});
	$a->wait_for_catchup('f');
	# the worker that does this by itself sleeps for up to 30 seconds
	my $synced = '';
	for (1 .. 1800)
	{
		$standby->psql('postgres', 'SELECT pg_sync_replication_slots()');
		$synced = $standby->safe_psql('postgres', q{SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'f' AND synced AND NOT temporary AND invalidation_reason IS NULL});
		last if $synced eq '1';
		select(undef, undef, undef, 0.1);
	}
	is($synced, '1', 'the standby has the slot');
	# more changes, some of which the subscriber gets from the one, some from the other
	$b->safe_psql('postgres', 'ALTER SUBSCRIPTION f DISABLE');
	$b->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_subscription WHERE subname = 'f' AND pid IS NOT NULL}) or die 'the worker goes on';
	$a->safe_psql('postgres', q{INSERT INTO f SELECT g, 0, repeat('z', g) FROM generate_series(1000, 1100) g; UPDATE f SET v = v + 1; BEGIN; DELETE FROM f; ROLLBACK});
	$a->wait_for_catchup('standby', 'replay', $a->lsn('insert'));
	$a->stop('immediate');
	$standby->promote;
	$b->safe_psql('postgres', "ALTER SUBSCRIPTION f CONNECTION '" . $standby->connstr . " dbname=postgres'; ALTER SUBSCRIPTION f ENABLE");
	$standby->safe_psql('postgres', 'UPDATE f SET v = v + 1 WHERE id > 20; DELETE FROM f WHERE id = 1050');
	$standby->wait_for_catchup('f');
	my ($x, $y) = map { $_->safe_psql('postgres', 'SELECT count(*), sum(v), md5(string_agg(t::text, chr(10) ORDER BY id)) FROM f t') } $standby, $b;
	like($x, qr/^199\|/, 'rows of the new primary');
	is($y, $x, 'the subscriber has them all');
	$b->safe_psql('postgres', 'DROP SUBSCRIPTION f');
	check_tables($standby, 'of the new primary');
	$standby->stop;
	log_is_clean($standby);
}

check_tables($b, 'at the end');
undo_quiet($b, 'at the end');
$_->stop for grep { $_->{_pid} } $b, $a;
log_is_clean($_) for $a, $b;
done_testing();
