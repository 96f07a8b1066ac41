# A query is cancelled while it waits for a page that another backend reads, with
# a read of its own prepared but not begun.  Rolling back what the transaction
# had changed reads pages, too: it does so at once, in the abort.  (18 and later:
# the backend's only handle for reads.)
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('cancelled', conf => q{
autovacuum = off
max_parallel_workers_per_gather = 0
});
$node->start;
plan skip_all => 'reads are synchronous before 18' if $node->safe_psql('postgres', 'SHOW server_version_num') < 180000;
$node->append_conf('postgresql.conf', "io_method = worker\nio_workers = 1\n");

$node->restart;
plan skip_all => 'pg_buffercache is not installed' unless $node->safe_psql('postgres', q{SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_buffercache'});
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE EXTENSION pg_buffercache;
CREATE TABLE z (id int, v int) USING zheap;
CREATE TABLE big (id int, t text) USING heap;
INSERT INTO z SELECT g, 0 FROM generate_series(1, 100) g;
INSERT INTO big SELECT g, repeat('x', 200) FROM generate_series(1, 3000) g;
VACUUM z, big;});

my $control = session($node);
my $reader = session($node);
my $writer = session($node);
my $writer_pid = ask($writer, 'SELECT pg_backend_pid()');
my $reader_pid = ask($reader, 'SELECT pg_backend_pid()');
ask($writer, 'BEGIN; UPDATE z SET v = 1');
ask($control, 'CHECKPOINT');
# the control session reads its catalogs while the worker runs
my $waits = 'SELECT wait_event FROM pg_stat_activity WHERE pid =';
ask($control, "$_ 0") for $waits;
my $evicted = q{SELECT count(*) FROM pg_buffercache b, LATERAL pg_buffercache_evict(b.bufferid) e
WHERE b.relfilenode IN (pg_relation_filenode('z'), pg_relation_filenode('big')) AND b.relforknumber = 0 AND e.buffer_evicted};
cmp_ok(ask($control, $evicted), '>=', 50, 'pages are evicted');
my $worker = ask($control, q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'io worker'});
like($worker, qr/^\d+$/, 'one worker reads');

sub waits_for_read
{
	my ($pid) = @_;
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return 1 if ask($control, "$waits $pid") eq 'AioIoCompletion';
		select(undef, undef, undef, 0.1);
	}
	return 0;
}

kill 'STOP', $worker;
send_sql($reader, 'SELECT count(*) FROM big');
ok(waits_for_read($reader_pid), 'a page is being read');
send_sql($writer, 'SELECT count(*) FROM big');
ok(waits_for_read($writer_pid), 'another backend waits for it');
is(ask($control, "SELECT pg_cancel_backend($writer_pid)"), 't', 'and is cancelled');
like(ask($writer, 'SELECT 1'), qr/canceling statement due to user request/, 'its transaction aborts');
ask($writer, 'ROLLBACK');
kill 'CONT', $worker;
is(ask($reader, ''), '3000', 'the page has been read');
is($node->safe_psql('postgres', 'SELECT count(*), sum(v) FROM z'), '100|0', 'all is rolled back');
$node->log_check('rolled back in the abort', 0, log_unlike => [ qr/could not (roll back|finish)/ ]);
finish_session($_) for $control, $reader, $writer;
ok(check_tables($node, 'at the end'), 'sound');
$node->stop;
log_is_clean($node);
done_testing();
