# A table page, an undo page, a control page or WAL of a format version that
# this library doesn't know is refused by name, and nothing is changed.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

# without checksums the version reaches our own checks
my $node = PostgreSQL::Test::Cluster->new('versions');
init_without_checksums($node);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'zheap_am'
autovacuum = off
max_prepared_transactions = 2
restart_after_crash = off
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE x (k int PRIMARY KEY, c int) USING zheap;
INSERT INTO x SELECT g, g FROM generate_series(1, 1000) g;
BEGIN; UPDATE x SET c = -c; PREPARE TRANSACTION 'p';
});
my $data = $node->data_dir;
my $table = "$data/" . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('x')});
my $sum = 'SELECT count(*), sum(c) FROM x';
my $rows = $node->safe_psql('postgres', $sum);

# Put bytes into a file, return those that were there.
sub patch
{
	my ($file, $at, $bytes) = @_;
	open(my $fh, '+<:raw', $file) or die "$file: $!";
	seek $fh, $at, 0;
	read $fh, my $old, length $bytes;
	seek $fh, $at, 0;
	print $fh $bytes;
	close $fh;
	return $old;
}

sub fails
{
	my ($sql, $like, $what) = @_;
	my ($ret, $out, $err) = $node->psql('postgres', $sql);
	isnt($ret, 0, "$what is refused");
	like($err, $like, 'by name');
}

# --- a table page: the version follows the magic number in the last 8 bytes
$node->stop;
my $old = patch($table, 8192 - 6, chr(77));
is($old, chr(1), 'version byte of a table page');
$node->start;
fails($sum, qr/ERROR: .*block 0 of zheap relation "x" has format version 77, expected 1/, 'table page');
fails('UPDATE x SET c = 0', qr/format version 77, expected 1/, 'a change of it');
$node->stop;
patch($table, 8192 - 6, $old);

# --- an undo page, and a log's control page: 4 bytes behind the last 40
my ($log) = sort { -s $b <=> -s $a } glob "$data/base/9/1??";
for my $block (1, 0)
{
	$old = patch($log, 8192 * $block + 8152 + 4, pack('S', 99));
	is($old, pack('S', 1), "version of undo block $block");
	$node->start;
	fails($sum, qr/ERROR: .*format version is unknown to this library/, "undo block $block");
	$node->stop('immediate');
	patch($log, 8192 * $block + 8152 + 4, $old);
	ok($node->start(fail_ok => 1), 'start with the old version');
	is($node->safe_psql('postgres', $sum), $rows, 'all rows are there again');
	$node->stop;
}

# --- WAL, as told by the global control page
$node->start;
$node->safe_psql('postgres', 'CHECKPOINT; INSERT INTO x SELECT g, 0 FROM generate_series(2001, 2100) g');
kill_server($node);
my $global = "$data/base/9/1";
$old = patch($global, 8152 + 4, pack('S', 3));
is($old, pack('S', 1), 'version of the store');
ok(!start_after_kill($node), 'no recovery of WAL of an unknown version');
like(slurp_file($node->logfile), qr/FATAL:  WAL of zheap_am has format version 3, but this library knows version 1 only/, 'refused by name');
patch($global, 8152 + 4, $old);
unlink "$data/postmaster.pid";
ok(start_after_kill($node), 'recovery with the right version');
is($node->safe_psql('postgres', $sum), join('|', 1100, (split /\|/, $rows)[1]), 'nothing is lost');
$node->safe_psql('postgres', q{ROLLBACK PREPARED 'p'});
undo_quiet($node, 'at the end');
check_tables($node, 'at the end');
$node->stop;
log_is_clean($node, qr/format version/);
done_testing();
