# pg_upgrade to a new cluster of the same version: refused while rollbacks are
# pending and can't be done, drains them otherwise; then all tables have their
# rows and can be written.  Nothing counts as visible to all because the new
# cluster had used more xids than the old one; nor when pg_resetwal sets the
# next xid back: with undo there that is refused.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $conf = "autovacuum = off\n";
my $old = zheap_node('old', conf => $conf);
$old->start;
$old->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE x (k int PRIMARY KEY, c int, t text) USING zheap;
CREATE INDEX x_c ON x (c);
INSERT INTO x SELECT g, g, repeat('x', g % 70) FROM generate_series(1, 5000) g;
UPDATE x SET c = c + 1 WHERE k % 3 = 0;
UPDATE x SET t = repeat('long', 100) WHERE k % 17 = 0;
DELETE FROM x WHERE k % 19 = 0;
BEGIN; UPDATE x SET c = 0 WHERE k < 100; SAVEPOINT a; DELETE FROM x WHERE k < 50; ROLLBACK TO a; ROLLBACK;
CREATE TABLE big (a int, b text) USING zheap;
ALTER TABLE big ALTER b SET STORAGE EXTERNAL;
INSERT INTO big SELECT g, repeat(g::text, 4000) FROM generate_series(1, 5) g;
CREATE TABLE v (a int) USING zheap;
INSERT INTO v SELECT generate_series(1, 1000);
VACUUM v;
DELETE FROM v WHERE a % 2 = 0;
CREATE TABLE rewritten (a int) USING zheap;
INSERT INTO rewritten SELECT generate_series(1, 100);
ALTER TABLE rewritten ALTER a TYPE bigint;
});
my @tables = qw(x big v rewritten);
my $before = tables_digest($old, \@tables);

# --- pending, and the workers are held back
set_conf($old, 'zheap.rollback_paused' => 'on');
$old->safe_psql('postgres', q{
SET zheap.rollback_foreground_size = 0;
BEGIN; UPDATE x SET c = -1; DELETE FROM v; INSERT INTO x SELECT g, g, 'never' FROM generate_series(6000, 6999) g; ROLLBACK;});
is(tables_digest($old, \@tables), $before, 'rows with a rollback pending');
$old->stop;

my $new = zheap_node('new', conf => $conf);
my $bindir = $old->config_data('--bindir');
my $dir = PostgreSQL::Test::Utils::tempdir;
chdir $dir;

sub upgrade
{
	my ($to, @options) = @_;
	my $out = '';
	my $ok = IPC::Run::run([ 'pg_upgrade', '--no-sync', '-d', $old->data_dir, '-D', $to->data_dir,
			'-b', $bindir, '-B', $bindir, '-s', $to->host, '-p', $old->port, '-P', $to->port, @options ],
		'>', \$out, '2>&1');
	return ($ok, $out);
}

# What another session has not committed, and what it has rolled back.
sub nothing_premature
{
	my ($node, $what) = @_;
	my $s = session($node);
	my $rows = $node->safe_psql('postgres', 'SELECT count(*), sum(c) FROM x');
	ask($s, 'SET zheap.rollback_foreground_size = 0; BEGIN; UPDATE x SET c = -1; INSERT INTO x SELECT g, g FROM generate_series(90001, 90100) g');
	is($node->safe_psql('postgres', 'SELECT count(*), sum(c) FROM x'), $rows, "$what: not committed");
	ask($s, 'ROLLBACK');
	is($node->safe_psql('postgres', 'SELECT count(*), sum(c) FROM x'), $rows, "$what: rolled back");
	finish_session($s);
	is($node->safe_psql('postgres', 'SELECT h::text::numeric <= pg_snapshot_xmax(pg_current_snapshot())::text::numeric FROM zheap_horizons()'),
		't', "$what: horizons are not above the next xid");
	return;
}

sub burn_xids
{
	my ($node, $n) = @_;
	$node->safe_psql('postgres', "DO \$\$ BEGIN FOR i IN 1..$n LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END \$\$");
	return;
}

# The new cluster uses more xids than the old one, and undo.
$new->start;
burn_xids($new, 20000);
$new->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE gone (a int) USING zheap;
INSERT INTO gone SELECT generate_series(1, 5000);
BEGIN; DELETE FROM gone; ROLLBACK;
DROP EXTENSION zheap_am CASCADE;});
sleep 2;    # undo is discarded
$new->stop;
my ($ok, $out) = upgrade($new, '--check');
ok(!$ok, 'pg_upgrade is refused while a rollback is pending');
like($out, qr/aborted transactions on zheap tables are not rolled back yet/, 'with a clear message') or note($out);
like($out, qr/pg_zheap_drain_undo/, 'and a hint');
unlink "$_/postmaster.pid" for grep { -e "$_/postmaster.pid" } $old->data_dir;

# --- pending, and the workers may work
$old->append_conf('postgresql.conf', "zheap.rollback_paused = off\n");
($ok, $out) = upgrade($new);
ok($ok, 'pg_upgrade drains what is pending and goes on') or note($out);
$new->start;
is(tables_digest($new, \@tables), $before, 'all rows are there in the new cluster');
$new->safe_psql('postgres', q{
UPDATE big SET b = b || 'more' WHERE a = 2;
UPDATE big SET b = left(b, -4) WHERE a = 2;
VACUUM big;});
is(tables_digest($new, \@tables), $before, 'large values are replaced');
nothing_premature($new, 'in the new cluster');
check_tables($new, 'in the new cluster');
is( $new->safe_psql('postgres', 'SET enable_seqscan = off; SELECT count(*) FROM x WHERE c BETWEEN 1 AND 1000'),
	$new->safe_psql('postgres', 'SELECT count(*) FROM x WHERE c + 0 BETWEEN 1 AND 1000'), 'by index, too');

# --- written: the xact slots of the old cluster are taken over, rolled back over
$new->safe_psql('postgres', q{
BEGIN; UPDATE x SET c = c + 5; DELETE FROM v; DELETE FROM rewritten; ROLLBACK;});
is(tables_digest($new, \@tables), $before, 'a rollback in the new cluster');
my $snapshot = session($new);
my $rows = ask($snapshot, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*), sum(c) FROM x');
$new->safe_psql('postgres', q{
UPDATE x SET c = c + 1;
DELETE FROM v WHERE a < 100;
INSERT INTO v SELECT generate_series(2001, 3000);
UPDATE big SET b = 'short' WHERE a = 1;
VACUUM x;});
is(ask($snapshot, 'SELECT count(*), sum(c) FROM x'), $rows, 'an old snapshot of the new cluster');
ask($snapshot, 'COMMIT');
finish_session($snapshot);
my ($n, $sum) = split /\|/, $rows;
is($new->safe_psql('postgres', 'SELECT count(*), sum(c) FROM x'), "$n|" . ($sum + $n), 'changed rows');
undo_quiet($new, 'in the new cluster');
$new->safe_psql('postgres', 'VACUUM');
check_tables($new, 'after changes in the new cluster');
kill_server($new);
ok(start_after_kill($new), 'start after a kill');
is($new->safe_psql('postgres', 'SELECT count(*), sum(c) FROM x'), "$n|" . ($sum + $n), 'changed rows after a kill');
# --- a cluster that pg_upgrade was the first to start: it makes no undo there
my $fresh = zheap_node('fresh', conf => $conf);
($ok, $out) = upgrade($fresh);
ok($ok, 'pg_upgrade to a cluster never started') or note($out);
ok(!-e $fresh->data_dir . '/base/9/1', 'no undo before it was started');
$fresh->start;
is(tables_digest($fresh, \@tables), $before, 'all rows are there');
nothing_premature($fresh, 'never started');
check_tables($fresh, 'never started');
$fresh->stop;
log_is_clean($fresh);

# --- the next xid set back by hand: without undo, then with undo
sub next_xid
{
	my ($millions, $what) = @_;
	$new->stop;
	command_ok([ 'pg_resetwal', '-x', $millions << 20, '-D', $new->data_dir ], $what);
	$new->start;
	return;
}

next_xid(5, 'next xid set forward');
$rows = $new->safe_psql('postgres', 'SELECT count(*), sum(c) FROM x');
undo_quiet($new, 'before the next xid is set back');
next_xid(3, 'and back');
nothing_premature($new, 'set back');
next_xid(8, 'forward again');
set_conf($new, 'zheap.discard_naptime' => '60s');
$new->safe_psql('postgres', 'UPDATE x SET c = c WHERE k < 1000');
next_xid(6, 'and back, with undo');
my ($rc, $stdout, $stderr) = $new->psql('postgres', 'SELECT count(*) FROM x');
isnt($rc, 0, 'zheap tables are refused then');
like($stderr, qr/undo belongs to transactions up to \d+, but the next transaction is \d+/, 'with a reason');
next_xid(9, 'as the hint says');
is($new->safe_psql('postgres', 'SELECT count(*), sum(c) FROM x'), $rows, 'rows are there again');
check_tables($new, 'at the end');
$new->stop;
log_is_clean($new, qr/undo belongs to transactions/);
done_testing();
