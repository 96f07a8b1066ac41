# Crash, standby, long snapshots: the undo store without zheap.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('primary');
$node->init(allows_streaming => 1, extra => ['--data-checksums']);
$node->append_conf(
	'postgresql.conf', q{
shared_preload_libraries = 'undo_toy'
wal_consistency_checking = 'undo_toy'
max_prepared_transactions = 5
autovacuum = off
zheap.discard_naptime = 50ms
hot_standby_feedback = off
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION undo_toy;
CREATE TABLE p (a text);
INSERT INTO p SELECT repeat('x', 700) FROM generate_series(1, 1100);
CREATE UNLOGGED TABLE un (a text);
INSERT INTO un SELECT repeat('x', 700) FROM generate_series(1, 1100);
CHECKPOINT;
});

sub wait_for
{
	my ($n, $query) = @_;
	ok($n->poll_query_until('postgres', $query), $query);
}

# state that must be the same after a crash
sub logs
{
	return $node->safe_psql('postgres', q{
		SELECT log, head_block, head_offset, tail, used_blocks, seq
		FROM toy_undo_logs() WHERE persistence = 'p' ORDER BY log});
}

# --- an old snapshot keeps undo, its end lets it go
my ($in, $out, $err) = ('', '', '');
my $timer = IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default);
my $h = IPC::Run::start(
	[ $node->installed_command('psql'), '-XAtq', '-d', $node->connstr('postgres'), '-v', 'ON_ERROR_STOP=1' ],
	'<', \$in, '>', \$out, '2>', \$err, $timer);

sub ask
{
	my ($sql) = @_;
	$out = '';
	$in .= "$sql\n\\echo done-marker\n";
	$h->pump until $out =~ /done-marker/ || $err =~ /ERROR/;
	(my $r = $out) =~ s/done-marker\n//;
	return $r;
}

ask('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM p;');
my ($urp, $writer) = split /\|/,
  $node->safe_psql('postgres', q{SELECT * FROM toy_write('p', 3000, 100, 1)});
sleep 1;
is($node->safe_psql('postgres', "SELECT toy_chain('p', $urp, $writer, 1)"),
	'3000', 'undo is kept for an old snapshot');
like(ask("SELECT toy_chain('p', $urp, $writer, 1);"),
	qr/3000/, 'which can read it');

# --- the snapshot's database does not matter
$node->safe_psql('postgres', 'CREATE DATABASE other');

# --- kill -9 with a running, a committed and a prepared transaction
ask('COMMIT;');
wait_for($node, "SELECT h > $writer FROM toy_horizons()");
is($node->safe_psql('postgres', "SELECT toy_chain('p', $urp, $writer, 1)"),
	'0', 'undo is discarded after the snapshot');
$node->safe_psql('postgres', q{
ALTER SYSTEM SET zheap.rollback_paused = on; SELECT pg_reload_conf();
SELECT pg_sleep(0.3);
SELECT toy_write('p', 10, 100, 2)});
ask("BEGIN; SELECT count(*) FROM generate_series(0, 99) g, toy_write('p', 5, 50, g);");
ask("SELECT count(*) FROM generate_series(0, 99) g, toy_write('un', 5, 50, g);");
$node->safe_psql('postgres', q{
BEGIN;
SELECT count(*) FROM generate_series(10, 14) g, toy_write('p', 5, 50, g);
PREPARE TRANSACTION 'toy'});
$node->safe_psql('postgres', q{SELECT toy_write('p', 1, 50, 3)});
my $before = logs();
$node->stop('immediate');
$h->finish;
$node->start;
is(logs(), $before, 'logs are the same after a crash');
is($node->safe_psql('postgres', 'SELECT toy_has_unapplied(0)'),
	't', 'the crashed transaction is found');
is( $node->safe_psql('postgres', q{
	SELECT count(*) FROM toy_undo_logs()
	WHERE persistence = 'u' AND tail IS NOT NULL}),
	'0', 'unlogged logs are empty after a crash');
$node->safe_psql('postgres', q{
ALTER SYSTEM RESET zheap.rollback_paused; SELECT pg_reload_conf()});
wait_for($node, 'SELECT NOT toy_has_unapplied(0)');
is( $node->safe_psql('postgres', q{
	SELECT count(*), min(background) FROM toy_asked()
	WHERE reloid = 'p'::regclass}),
	'100|1', 'and rolled back in the background');
$node->safe_psql('postgres', q{SELECT toy_forget_asked(); ROLLBACK PREPARED 'toy'});
wait_for($node, 'SELECT NOT toy_has_unapplied(0)');
is( $node->safe_psql('postgres', 'SELECT count(*) FROM toy_asked()'),
	'5', 'so is the prepared transaction');

# --- clean restart
$before = logs();
$node->restart;
is(logs() =~ tr/\n//, $before =~ tr/\n//, 'logs survive a restart');

# --- repeated crashes while writing
for my $round (1 .. 5)
{
	my $bench = IPC::Run::start(
		[ 'bash', '-c', 'for i in $(seq 1 200); do echo "SELECT toy_write(\'p\', 50, 300, 1);"; echo "BEGIN; SELECT toy_write(\'p\', 5, 30, 7); ROLLBACK;"; done | psql -XAtq -d "$0" >/dev/null 2>&1',
			$node->connstr('postgres') ]);
	select(undef, undef, undef, 0.1 * $round);
	$node->stop('immediate');
	$bench->finish;
	$node->start;
	my ($u, $w) = split /\|/,
	  $node->safe_psql('postgres', q{SELECT * FROM toy_write('p', 100, 300, 1)});
	ok(defined $w, "writable after crash $round");
	wait_for($node, "SELECT NOT toy_has_unapplied(0) AND h > $w FROM toy_horizons()");
}

# --- many writers at once, many logs, some roll back, then a crash
$node->safe_psql('postgres', 'SELECT toy_forget_asked()');
PostgreSQL::Test::Utils::append_to_file($node->basedir . '/stress.sql', q{
\set b random(0, 99)
\set n random(1, 40)
\set c random(1, 4)
BEGIN;
SELECT toy_write('p', :n, 300, :b);
SELECT toy_write('un', :n, 100, :b);
SAVEPOINT a;
SELECT toy_write('p', :n, 30, :b);
\if :c > 2
ROLLBACK TO a;
\endif
\if :c = 1
ROLLBACK;
\else
COMMIT;
\endif
});
for my $round (1 .. 2)
{
	my $bench = IPC::Run::start(
		[ $node->installed_command('pgbench'), '-n', '-c', '8', '-j', '2', '-T', '4',
			'-f', $node->basedir . '/stress.sql', $node->connstr('postgres') ],
		'>', '/dev/null', '2>&1');
	sleep 3 if $round == 1;
	$node->stop('immediate') if $round == 1;
	$bench->finish;
	$node->start if $round == 1;
	wait_for($node, 'SELECT NOT toy_has_unapplied(0)');
	wait_for($node, q{SELECT count(*) = 0 FROM toy_undo_logs()
		WHERE tail <> head_block OR state NOT IN ('free', 'absent')});
}
cmp_ok($node->safe_psql('postgres', 'SELECT max(used_blocks) FROM toy_undo_logs()'),
	'<', 700, 'logs stay small');

# --- a temporary table that cannot be rolled back ends its session
my ($ret, $stdout, $stderr) = $node->psql('postgres', q{
CREATE TEMP TABLE te (a text);
INSERT INTO te VALUES ('x');
SET undo_toy.fail_block = 0;
BEGIN;
SELECT toy_write('te', 1, 10, 0);
ROLLBACK;
SELECT 'alive';
});
unlike($stdout, qr/alive/, 'session ends');
is($node->safe_psql('postgres', 'SELECT 1'), '1', 'the server does not');

# --- standby
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->safe_psql('postgres', q{SELECT toy_write('p', 3000, 300, 1)}) for 1 .. 5;
($urp, $writer) = split /\|/, $node->safe_psql('postgres', q{
SELECT * FROM toy_write('p', 300, 300, 1)});
wait_for($node, "SELECT h > $writer FROM toy_horizons()");
$node->wait_for_catchup($standby);
is( $standby->safe_psql('postgres', 'SELECT u, h FROM toy_horizons()'),
	$node->safe_psql('postgres', 'SELECT u, h FROM toy_horizons()'),
	'horizons on the standby');

# DROP DATABASE with undo in it, and promotion with a running transaction
$node->safe_psql('postgres', q{
ALTER SYSTEM SET zheap.rollback_paused = on; SELECT pg_reload_conf()});
$node->safe_psql('other', q{
CREATE EXTENSION undo_toy; CREATE TABLE o (a text);
INSERT INTO o SELECT repeat('x', 700) FROM generate_series(1, 1100);
SELECT pg_sleep(0.3);
BEGIN;
SELECT count(*) FROM generate_series(0, 79) g, toy_write('o', 5, 50, g);
ROLLBACK});
is($node->safe_psql('postgres', 'SELECT toy_has_unapplied(0)'), 't', 'undo of another database');
$node->safe_psql('postgres', 'DROP DATABASE other');
$node->safe_psql('postgres', q{
ALTER SYSTEM RESET zheap.rollback_paused; SELECT pg_reload_conf()});
wait_for($node, 'SELECT NOT toy_has_unapplied(0)');

$node->safe_psql('postgres', q{
BEGIN;
SELECT count(*) FROM generate_series(20, 24) g, toy_write('p', 5, 50, g);
PREPARE TRANSACTION 'toy2'});
$node->wait_for_catchup($standby);
$node->stop('immediate');
$standby->promote;
$standby->safe_psql('postgres', q{ROLLBACK PREPARED 'toy2'});
wait_for($standby, 'SELECT NOT toy_has_unapplied(0)');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM toy_asked()'),
	'5', 'rolled back after promotion');
($urp, $writer) = split /\|/, $standby->safe_psql('postgres', q{
SELECT * FROM toy_write('p', 300, 300, 1)});
wait_for($standby, "SELECT h > $writer FROM toy_horizons()");

$standby->stop;
for my $n ($node, $standby)
{
	unlike(PostgreSQL::Test::Utils::slurp_file($n->logfile),
		qr/TRAP|PANIC|could not roll back in the background|terminated by signal/,
		'nothing bad in the log of ' . $n->name);
}
done_testing();
