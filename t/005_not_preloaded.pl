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

# --- another library, loaded later, forgets the hooks of those before it
my $folder = $node->config_data('--pkglibdir');
my ($cc, $include) = map { $node->config_data($_) } '--cc', '--includedir-server';
my $rude = "$folder/zheap_rude_$$.so";
END { unlink $rude if $rude; }
put($node->basedir . '/rude.c', q{
#include "postgres.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/ipc.h"

PG_MODULE_MAGIC;
extern void _PG_init(void);
static void nothing(void) {}

void
_PG_init(void)
{
	HOOK = nothing;
}
});
SKIP: {
	skip "$folder is not writable", 1 unless -w $folder;
	for my $hook ('shmem_request_hook', 'shmem_startup_hook')
	{
		skip 'no library could be made', 1
		  if system("$cc -O1 -fPIC -shared -DHOOK=$hook -I$include -o $rude " . $node->basedir . '/rude.c') != 0;
		$node->stop;
		preload("zheap_am, zheap_rude_$$");
		my $at = -s $node->logfile;
		if ($hook eq 'shmem_request_hook')
		{
			ok(!$node->start(fail_ok => 1), "the server does not start without $hook");
			like(substr(slurp_file($node->logfile), $at), qr/FATAL:  zheap_am was kept from setting up its shared memory\n.*HINT: .*Put zheap_am last/, 'it says why');
		}
		else
		{
			$node->start;
			for my $sql ('SELECT count(*) FROM p', 'INSERT INTO p VALUES (0, 0)', 'CREATE TABLE q (a int) USING zheap', 'VACUUM p', 'TABLE pg_stat_zheap_undo', 'CREATE DATABASE d')
			{
				my ($rc, $out, $err) = $node->psql('postgres', $sql);
				like($err, qr/ERROR:  zheap_am was kept from setting up its shared memory\n.*HINT: .*Put zheap_am last/, "without $hook: $sql");
			}
			is($node->safe_psql('postgres', 'SELECT a FROM other'), '1', "without $hook: other tables can be read");
			unlike(substr(slurp_file($node->logfile), $at), qr/signal 11|TRAP/, 'no process crashed');
			$node->stop;
		}
		preload("zheap_rude_$$, zheap_am");
		$node->start;
		is($node->safe_psql('postgres', 'SELECT count(*), sum(b) FROM p'), '1000|500500', "$hook: the other order works");
	}
	$node->stop;
	preload('zheap_am');
	$node->start;
}

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
