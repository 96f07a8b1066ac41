# Without the library in shared_preload_libraries: a clear error with a hint
# at CREATE EXTENSION and at every use; crash recovery stops with the server's
# own message and resumes when the library is back.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('preload');
my $message = qr/zheap_am must be loaded via shared_preload_libraries/;
my $hint = qr/HINT: .*Add zheap_am to shared_preload_libraries and restart/;

sub preload
{
	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'$_[0]'");
}

sub refused
{
	my ($sql, $what) = @_;
	my ($ret, $out, $err) = $node->psql('postgres', $sql);
	isnt($ret, 0, "$what fails");
	like($err, $message, "$what: message");
	like($err, $hint, "$what: hint");
}

preload('');
$node->start;
refused('CREATE EXTENSION zheap_am', 'CREATE EXTENSION');
refused(q{LOAD 'zheap_am'}, 'LOAD');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_extension WHERE extname = $$zheap_am$$'),
	'0', 'no half extension');

preload('zheap_am');
$node->restart;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE p (a int PRIMARY KEY, b int) USING zheap;
INSERT INTO p SELECT g, g FROM generate_series(1, 1000) g;
CREATE TABLE other AS SELECT 1 AS a;
});

preload('');
$node->restart;
refused('SELECT count(*) FROM p', 'SELECT');
refused('INSERT INTO p VALUES (0, 0)', 'INSERT');
refused('CREATE TABLE q (a int) USING zheap', 'CREATE TABLE');
refused('VACUUM p', 'VACUUM');
refused('SELECT * FROM pg_stat_zheap_undo', 'a view');
is($node->safe_psql('postgres', 'SELECT a FROM other'), '1', 'other tables can be read');

preload('zheap_am');
$node->restart;
is($node->safe_psql('postgres', 'SELECT count(*), sum(b) FROM p'), '1000|500500', 'rows are there when it is back');

# --- crash recovery without the library
$node->safe_psql('postgres', 'CHECKPOINT; UPDATE p SET b = b + 1; DELETE FROM p WHERE a > 900');
kill_server($node);
preload('');
ok(!start_after_kill($node), 'no start without the library');
like(slurp_file($node->logfile),
	qr/resource manager with ID \d+ not registered.*shared_preload_libraries/s, 'with the message of the server');
preload('zheap_am');
ok(start_after_kill($node), 'start when it is back');
is($node->safe_psql('postgres', 'SELECT count(*), sum(b) FROM p'), '900|406350', 'nothing is lost');
check_tables($node, 'after recovery');
$node->stop;
log_is_clean($node, qr/PANIC:.*resource manager|startup process .* was terminated by signal/);
done_testing();
