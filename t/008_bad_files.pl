# Damaged and missing files: an error at who needs them, that names the place;
# the server goes on, and never into a loop of crashes.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

# without checksums damage reaches our own checks
my $node = PostgreSQL::Test::Cluster->new('bad');
init_without_checksums($node);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'zheap_am'
zheap.discard_naptime = 50ms
max_prepared_transactions = 5
restart_after_crash = on
autovacuum = off
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE x (k int PRIMARY KEY, c int, t text) USING zheap;
INSERT INTO x SELECT g, g, repeat('x', 60) FROM generate_series(1, 3000) g;
CREATE TABLE y (k int PRIMARY KEY, c int) USING zheap;
INSERT INTO y SELECT g, g FROM generate_series(1, 1000) g;
CREATE TABLE plain AS SELECT g AS a FROM generate_series(1, 10) g;
});
my $data = $node->data_dir;

sub alive
{
	my ($what) = @_;
	is($node->safe_psql('postgres', 'SELECT sum(a) FROM plain; SELECT count(*) FROM y'), "55\n1000", "$what: server lives");
}

sub fails
{
	my ($sql, $like, $what) = @_;
	my ($ret, $out, $err) = $node->psql('postgres', $sql);
	isnt($ret, 0, "$what: fails");
	like($err, $like, "$what: error");
	unlike($err, qr/server closed/, "$what: session lives");
}

# --- undo: a prepared transaction needs it over a restart
$node->safe_psql('postgres', q{BEGIN; UPDATE x SET c = -c; DELETE FROM x WHERE k > 2900; PREPARE TRANSACTION 'p'});
my @rows = split /\n/, $node->safe_psql('postgres', 'SELECT count(*), sum(c) FROM x');
$node->stop;
my @logs = glob "$data/base/9/1??";
cmp_ok(scalar(@logs), '>', 0, 'there are undo files');
my %saved = map { $_ => content($_) } @logs;

# missing
unlink @logs;
ok($node->start(fail_ok => 1), 'start without undo files');
fails('SELECT sum(c) FROM x', qr/ERROR:.*(undo|base\/9)/, 'reader of missing undo');
alive('missing undo');
my ($ret, $out, $err) = $node->psql('postgres', q{ROLLBACK PREPARED 'p'});
alive('rollback with missing undo');
fails('SELECT sum(c) FROM x WHERE k = 2950', qr/ERROR:.*(undo|base\/9)/, 'reader of what cannot be undone');
sleep 1;
alive('background rollback with missing undo');
$node->stop;
log_is_clean($node, qr/undo|base\/9/);

# back, with one page of garbage, then one of zeroes, then cut
put($_, $saved{$_}) for @logs;
my ($big) = sort { -s $b <=> -s $a } @logs;
my $blocks = (-s $big) / 8192;
cmp_ok($blocks, '>', 8, 'enough undo');
overwrite($big, 8192 * $_, join '', map { chr(($_ * 37) & 255) } 1 .. 8192) for 3 .. 4;
overwrite($big, 8192 * 5, "\0" x 8192);
ok($node->start(fail_ok => 1), 'start with damaged undo');
fails('SELECT sum(c) FROM x', qr/ERROR:.*(undo|base\/9|invalid page)/, 'reader of damaged undo');
alive('damaged undo');
$node->stop;
put($big, substr($saved{$big}, 0, 8192 * 4));
ok($node->start(fail_ok => 1), 'start with cut undo');
fails('SELECT sum(c) FROM x', qr/ERROR:.*(undo|base\/9)/, 'reader of cut undo');
alive('cut undo');
# a log that can't be written is given up at the first attempt
$node->safe_psql('postgres', 'CREATE TABLE w (a int) USING zheap');
($ret, $out, $err) = $node->psql('postgres', 'INSERT INTO w SELECT generate_series(1, 100)');
like($err, qr/WARNING:  undo log \d+ cannot be written and is retired/, 'a log is retired');
$node->safe_psql('postgres', 'INSERT INTO w SELECT generate_series(1, 100); UPDATE w SET a = a + 1');
is($node->safe_psql('postgres', 'SELECT sum(a) FROM w'), '5150', 'another log is written');
$node->stop;

# a crash with damaged undo
my @now = glob "$data/base/9/*";
put($big, $saved{$big});
overwrite($big, 8192 * 3 + 100, 'garbage' x 200);
ok($node->start(fail_ok => 1), 'start');
kill_server($node);
ok(start_after_kill($node), 'start after a kill with damaged undo');
alive('after the kill');
$node->stop;

# --- whole again: nothing was harmed by the errors
put($_, $saved{$_}) for @logs;
ok($node->start(fail_ok => 1), 'start with whole files');
is($node->safe_psql('postgres', 'SELECT count(*), sum(c) FROM x'), $rows[0], 'rows are there when undo is back');

# --- table pages: a table for each damage
my %damage = (
	'page of garbage' => [ 8192, join '', map { chr((41 * $_) & 255) } 1 .. 8192 ],
	'special space of ff' => [ 16384 - 120, "\xff" x 120 ],
	'special space of zeroes' => [ 16384 - 120, "\0" x 120 ],
	'line pointers of ff' => [ 8192 + 24, "\xff" x 200 ],
	'line pointers of zeroes' => [ 8192 + 24, "\0" x 200 ],
	'line pointers astray' => [ 8192 + 24, pack('L', 8000 | (1 << 15) | (400 << 17)) x 20 ],
	'line pointers at the end' => [ 8192 + 24, pack('L', 8190 | (1 << 15) | (2 << 17)) x 20 ],
	'line pointers into the header' => [ 8192 + 24, pack('L', 4 | (1 << 15) | (400 << 17)) x 20 ],
	'tuples of ff' => [ 16384 - 1000, "\xff" x 600 ],
	'tuples of zeroes' => [ 16384 - 1000, "\0" x 600 ],
	'tuples of noise' => [ 16384 - 2000, join '', map { chr((89 * $_ + ($_ >> 3)) & 255) } 1 .. 1800 ],
	'pd_special' => [ 8192 + 16, pack('S', 8) ],
	'pd_lower' => [ 8192 + 12, pack('S', 8000) ],
	'page of zeroes' => [ 8192, "\0" x 8192 ],
);
my %table;
for my $what (sort keys %damage)
{
	(my $t = "d $what") =~ s/ /_/g;
	$node->safe_psql('postgres', qq{
CREATE TABLE $t (k int PRIMARY KEY, c int, t text) USING zheap;
INSERT INTO $t SELECT g, g, repeat('t', g % 40) FROM generate_series(1, 1000) g;});
	$table{$what} = [ $t, "$data/" . $node->safe_psql('postgres', "SELECT pg_relation_filepath('$t')") ];
}
$node->stop;
overwrite($table{$_}[1], @{ $damage{$_} }) for keys %damage;
$node->start;
for my $what (sort keys %damage)
{
	my $t = $table{$what}[0];
	my $errors = 0;

	# what the buffer manager refuses to read zheap_check can't look at
	my (undef, $found, $refused) = $node->psql('postgres',
		qq{SELECT string_agg(what, '; ') FROM (SELECT * FROM zheap_check('$t') LIMIT 3) c});
	$found .= $refused;
	for my $sql ("SELECT count(*), sum(c), max(t) FROM $t", "UPDATE $t SET c = c + 1", "UPDATE $t SET t = t || 'longer'",
		"SELECT * FROM $t WHERE k BETWEEN 150 AND 350 FOR UPDATE",
		"INSERT INTO $t SELECT g, g FROM generate_series(5001, 5300) g", "DELETE FROM $t WHERE k > 100", "ANALYZE $t",
		"SELECT * FROM zheap_page_items('$t', 1)", "SELECT * FROM zheap_page_slots('$t', 1)", "VACUUM $t", "REINDEX TABLE $t")
	{
		($ret, $out, $err) = $node->psql('postgres', $sql =~ /VACUUM/ ? $sql : "BEGIN; $sql; ROLLBACK");
		unlike($err, qr/server closed|crash of another|terminat/, "$what: $sql") or note($err);
		next if $err eq '' || $err =~ /duplicate key/;
		$errors++;
		# within the values of a row nothing but nonsense can be noticed
		like($err, $what =~ /^tuples/ ? qr/ERROR: / : qr/(?:ERROR|WARNING): .*(?:block|page)/, "$what: $sql names the place");
	}
	note("$what: $errors errors; $found");
	ok($errors > 0 || $found ne '', "$what is seen") if $what !~ /(?:page|pointers) of zeroes/;
}
alive('damaged tables');

$node->stop('immediate');
is(join("\n", grep { /TRAP:|PANIC:|terminated by signal/ } split /\n/, slurp_file($node->logfile)), '', 'no crash');

# --- a table page that can't be told for one is not rolled back, nor taken for
# it; where nothing else is
$node = PostgreSQL::Test::Cluster->new('rolled');
init_without_checksums($node);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'zheap_am'
zheap.discard_naptime = 50ms
max_prepared_transactions = 5
autovacuum = off
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE rb (id int, v int) USING zheap;
INSERT INTO rb SELECT g, 0 FROM generate_series(1, 10) g;
BEGIN; UPDATE rb SET v = 1000; INSERT INTO rb VALUES (77, 1000); PREPARE TRANSACTION 'rb'});
my $file = $node->data_dir . '/' . $node->safe_psql('postgres', "SELECT pg_relation_filepath('rb')");
$node->stop;
my $sound = content($file);
overwrite($file, 8192 - 8, "\0");	# of the magic number
$node->start;
$node->safe_psql('postgres', "ROLLBACK PREPARED 'rb'");
is($node->safe_psql('postgres', "SELECT pg_zheap_drain_undo('3 s')"), 'f', 'not rolled back');
ok($node->poll_query_until('postgres', 'SELECT count(*) > 0 FROM pg_stat_progress_zheap_rollback'), 'and shown');
$node->stop;
put($file, $sound);
$node->start;
is($node->safe_psql('postgres', 'SELECT count(*), sum(v) FROM rb'), '10|0', 'rolled back when the page is back');
$node->stop;
done_testing();
