# Who writes pages of tables past us (undo/README): databases, tablespaces and
# tables that are copied with their pages' positions, pages logged at commit, and
# checksums (backups: t/306, t/307, t/308).  Behind each of them large values change
# in part, so that bytes are left out of WAL where redo may copy them (U24), pages
# get to disk as they are then, and the server is killed.  A heap table of the same
# history says what there must be.  With wal_level = minimal and replica.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $make = q{
CREATE EXTENSION zheap_am;
CREATE FUNCTION val(seed int, n int) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT left(string_agg(md5(seed || '.' || g), ''), n) FROM generate_series(1, n / 32 + 1) g $$;
CREATE TABLE z (id int PRIMARY KEY, t text) USING zheap;
CREATE TABLE h (id int PRIMARY KEY, t text) USING heap;
ALTER TABLE z ALTER t SET STORAGE EXTERNAL; ALTER TABLE h ALTER t SET STORAGE EXTERNAL;
CHECKPOINT;
INSERT INTO z SELECT g, val(g, 12000) FROM generate_series(1, 150) g;
INSERT INTO h TABLE z};

my $differences = 'SELECT count(*) FROM z FULL JOIN h USING (id) WHERE z.t IS DISTINCT FROM h.t';
my $round = 0;

sub change
{
	my ($node, $database) = @_;
	for (1 .. 2)
	{
		$round++;
		$node->safe_psql($database, qq{
UPDATE h SET t = overlay(t placing 'round $round' from 1 + 2000 * ($round % 6));
UPDATE z SET t = overlay(t placing 'round $round' from 1 + 2000 * ($round % 6));
BEGIN; UPDATE z SET t = reverse(t) WHERE id % 3 = 0; ROLLBACK});
	}
}

# pages are on disk as they are now, with no checkpoint
sub evict
{
	my ($node, $database) = @_;
	$node->safe_psql($database, q{
CREATE TABLE junk (t text);
INSERT INTO junk SELECT repeat('x', 1000) FROM generate_series(1, 12000);
DROP TABLE junk});
}

sub same
{
	my ($node, $database, $what) = @_;
	is($node->safe_psql($database, $differences), '0', "$what: values");
	is($node->safe_psql($database, q{SELECT count(*) FROM zheap_check('z')}), '0', "$what: pages");
}

sub killed
{
	my ($node, $what, @databases) = @_;
	for my $database (@databases)
	{
		change($node, $database);
		evict($node, $database);
	}
	kill_server($node);
	ok(start_after_kill($node), "$what: start after a kill") or BAIL_OUT('no start');
	same($node, $_, $what) for @databases;
}

for my $level (qw(minimal replica))
{
	my $node = zheap_node("level_$level", conf => qq{
wal_level = $level
max_wal_senders = 0
autovacuum = off
shared_buffers = 4MB
checkpoint_timeout = 1h
max_wal_size = 4GB
allow_in_place_tablespaces = on
});
	$node->start;
	$node->safe_psql('postgres', 'CREATE DATABASE src');
	$node->safe_psql('src', $make);
	$node->safe_psql('postgres', "CREATE TABLESPACE $_ LOCATION ''") for qw(one two);

	for my $strategy (qw(wal_log file_copy))
	{
		change($node, 'src');
		$node->safe_psql('postgres', "CREATE DATABASE $strategy TEMPLATE src STRATEGY $strategy");
		killed($node, "$level, CREATE DATABASE by $strategy", 'src', $strategy);
	}

	change($node, 'wal_log');
	$node->safe_psql('wal_log', "ALTER TABLE z SET TABLESPACE one");
	killed($node, "$level, ALTER TABLE SET TABLESPACE", 'wal_log');

	change($node, 'wal_log');
	$node->safe_psql('wal_log', "ALTER TABLE ALL IN TABLESPACE one SET TABLESPACE two");
	killed($node, "$level, ALTER TABLE ALL IN TABLESPACE", 'wal_log');

	change($node, 'file_copy');
	$node->safe_psql('postgres', 'ALTER DATABASE file_copy SET TABLESPACE one');
	killed($node, "$level, ALTER DATABASE SET TABLESPACE", 'file_copy');

	# logged at commit as they are, or synced
	for my $threshold ('0', '64MB')
	{
		set_conf($node, wal_skip_threshold => $threshold);
		change($node, 'src');
		$node->safe_psql('src', 'VACUUM FULL z; ALTER TABLE z SET UNLOGGED; ALTER TABLE z SET LOGGED');
		killed($node, "$level, rewritten, threshold $threshold", 'src');
		$node->safe_psql('src', q{
BEGIN; TRUNCATE z; INSERT INTO z TABLE h;
SAVEPOINT a; UPDATE z SET t = reverse(t); ROLLBACK TO a; COMMIT});
		killed($node, "$level, truncated, threshold $threshold", 'src');
	}

	SKIP:
	{
		skip 'no pg_prewarm here', 3
		  unless $node->safe_psql('src', q{SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_prewarm'});
		$node->safe_psql('src', q{CREATE EXTENSION pg_prewarm; SELECT pg_prewarm('z'), pg_prewarm('z', 'read')});
		killed($node, "$level, prewarmed", 'src');
	}

	# pages are written in place, at the positions that they have
	$node->stop;
	my ($out) = run_command([ 'pg_controldata', $node->data_dir ]);
	my $had = $out =~ /Data page checksum version:\s+[1-9]/;
	for my $how ($had ? ('--disable', '--enable') : ('--enable'))
	{
		command_ok([ 'pg_checksums', $how, '--no-sync', '-D', $node->data_dir ], "$level, pg_checksums $how");
		$node->start;
		killed($node, "$level, checksums $how", 'src', 'wal_log');
		$node->stop;
	}
	log_is_clean($node);
}
done_testing();
