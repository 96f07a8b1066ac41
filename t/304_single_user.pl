# Single-user mode: what a crash left is rolled back, undo is discarded, and
# transactions commit and abort, all in the one process there is.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('single', conf => "autovacuum = off\n");
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE x (k int PRIMARY KEY, c int, t text) USING zheap;
INSERT INTO x SELECT g, g, repeat('x', 50) FROM generate_series(1, 3000) g;
CREATE UNLOGGED TABLE u (a int) USING zheap;
});
my $all = 'SELECT count(*), sum(c), sum(length(t)) FROM x';
my $before = $node->safe_psql('postgres', $all);

# statements, one a line; the values that they return
sub single
{
	my ($sql, $database) = @_;
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'postgres', '--single', '-F', '-D', $node->data_dir, $database // 'postgres' ],
		'<', \$sql, '>', \$out, '2>', \$err) or note($err);
	unlike($err, qr/PANIC|TRAP|FATAL/, 'single-user mode ends well');
	return join ',', $out =~ /^\t \d+: \S+ = "([^"]*)"/mg;
}

# --- a crash leaves a large transaction behind
set_conf($node, 'zheap.rollback_paused' => 'on');
$node->safe_psql('postgres', q{
SET zheap.rollback_foreground_size = 0;
BEGIN; UPDATE x SET c = -1, t = 'undone'; DELETE FROM x WHERE k > 2000; ROLLBACK;});
kill_server($node);
$node->append_conf('postgresql.conf', "zheap.rollback_paused = off\n");
(my $want = $before) =~ tr/|/,/;
is(single("$all\nSELECT count(*) AS n FROM x WHERE k > 2000\n"), "$want,1000", 'rows after a crash');
is(single("SELECT 1\nSELECT count(*) AS n FROM zheap_page_slots('x', 0) WHERE status = 'aborted'\n"
		. "SELECT pg_zheap_drain_undo()\n$all\n"), "1,0,t,$want", 'the first commit has rolled it back');

# --- commits, aborts, savepoints; undo goes
my $load = '';
for my $i (1 .. 250)
{
	my $k = $i * 7;
	$load .= "UPDATE x SET c = c + 1, t = repeat('y', 50) WHERE k BETWEEN $k AND $k + 60\n";
	$load .= "DO \$\$ BEGIN UPDATE x SET c = -5; PERFORM 1 / 0; EXCEPTION WHEN division_by_zero THEN NULL; END \$\$\n" if $i % 50 == 0;
	$load .= "INSERT INTO u VALUES ($i)\n";
}
$load .= "BEGIN\nUPDATE x SET c = 0\nDELETE FROM x\nROLLBACK\n";
$load .= "SELECT pg_zheap_undo_file_size() < 4 * 1024 * 1024\n";
$load .= "SELECT 1\n" x 200 . "SELECT pg_zheap_undo_size() < 64 * 1024\n";
my $out = single("$load$all\nSELECT count(*) AS n FROM u\n");
my $sum = (split /,/, $want)[1] + 250 * 61;
is($out, join(',', 't', (1) x 200, 't', 3000, $sum, 150000, 250), 'transactions of single-user mode, and undo is discarded');

$node->start;
is($node->safe_psql('postgres', $all), "3000|$sum|150000", 'the server shows the same');
# --- a copy of a database in which changes are to be rolled back
set_conf($node, 'zheap.rollback_paused' => 'on');
$node->safe_psql('postgres', 'CREATE DATABASE source');
$node->safe_psql('source', q{
CREATE EXTENSION zheap_am;
CREATE TABLE y (a int, b int) USING zheap;
INSERT INTO y SELECT g, 0 FROM generate_series(1, 3000) g;
SET zheap.rollback_foreground_size = 0;
BEGIN; UPDATE y SET b = 1; ROLLBACK;});
$node->stop;
$node->append_conf('postgresql.conf', "zheap.rollback_paused = off\n");
single("CREATE DATABASE copy TEMPLATE source\n");
is(single("SELECT count(*) AS n FROM pg_database WHERE datname = 'copy'\n"), '0', 'no copy is made from another database');
is(single("CREATE DATABASE copy TEMPLATE source\nSELECT sum(b) AS n FROM y\n", 'source'), '0', 'the source rolls back');
is(single("SELECT sum(b) AS n FROM y\n", 'copy'), '0', 'and is copied');
$node->start;
undo_quiet($node, 'afterwards');
check_tables($node, 'afterwards');
$node->stop;
log_is_clean($node);
done_testing();
