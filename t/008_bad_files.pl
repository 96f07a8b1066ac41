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
# a log that can't be written is given up when it is loaded
$node->safe_psql('postgres', 'CREATE TABLE w (a int) USING zheap');
like(slurp_file($node->logfile), qr/WARNING:  undo log \d+ cannot be written and is retired/, 'a log is retired');
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

# --- what a log's control page says: the log is retired, its undo stays and is
# read, nothing counts as done, others are written.  tail, head, head_offset
# (and 2 bytes), used_blocks, seq behind the page header, which has 24 bytes
my %control = (
	'no blocks' => [ 36, pack('L', 0) ],
	'few blocks' => [ 36, pack('L', 3) ],
	'blocks beyond the file' => [ 36, pack('L', 100000) ],
	'the control page as tail' => [ 24, pack('L', 0) ],
	'another tail' => [ 24, pack('L', 2) ],
	'no tail' => [ 24, pack('L', 0xFFFFFFFF) ],
	'the control page as head' => [ 28, pack('L', 0) ],
	'a head beyond' => [ 28, pack('L', 5000) ],
	'a head in the page header' => [ 32, pack('S', 3) ],
	'a head behind its page' => [ 32, pack('S', 0xFFFF) ],
	'another sequence number' => [ 40, pack('Q', 7777) ],
);
$node = PostgreSQL::Test::Cluster->new('control');
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
CREATE TABLE t (id int, v text) USING zheap;
CREATE TABLE w (id int, v text) USING zheap;
INSERT INTO t SELECT g, repeat('a', 100) FROM generate_series(1, 2000) g;
BEGIN; UPDATE t SET v = repeat('b', 100); PREPARE TRANSACTION 'p'});
$node->stop;
$file = $node->data_dir . '/base/9/100';
$sound = content($file);
# all of it as it was with two pages: found by the pages behind them
$control{'an earlier state'} = [ 24, pack('LLSSLQ', 2, 1, 24, 0, 3, unpack('Q', substr($sound, 2 * 8192 + 8152 + 8, 8))) ];
sub others_are_rolled_back
{
	my ($what) = @_;
	$node->safe_psql('postgres', "SET zheap.rollback_foreground_size = 0; BEGIN; UPDATE w SET v = 'y'; ROLLBACK");
	ok($node->poll_query_until('postgres',
		q{SELECT count(*) = 0 FROM zheap_page_slots('w', 0) WHERE status = 'aborted'}), "$what: others are rolled back");
	return;
}
sub damaged_control
{
	my ($what) = @_;
	$node->start;
	$node->safe_psql('postgres',
		"INSERT INTO w SELECT g, repeat('w', 50) FROM generate_series(1, 300) g; UPDATE w SET v = repeat('x', 60)");
	is($node->safe_psql('postgres', 'SELECT count(DISTINCT v), min(v) = max(v) FROM t'), '1|t', "$what: undo is read");
	is($node->safe_psql('postgres', "SELECT state FROM pg_stat_zheap_undo WHERE persistence = 'permanent' AND log = 0"),
		'retired', "$what: retired");
	others_are_rolled_back($what);
	return;
}
for my $what (sort keys %control)
{
	overwrite($file, @{ $control{$what} });
	damaged_control($what);
	ok($node->poll_query_until('postgres',
		"SELECT count(*) = 1 FROM pg_stat_zheap_undo_holders WHERE kind::text ~ 'damaged|unreadable'"), "$what: shown");
	$node->safe_psql('postgres', "ROLLBACK PREPARED 'p'") if $what eq (sort keys %control)[-1];
	(undef, $out) = $node->psql('postgres', "SELECT pg_zheap_drain_undo('100 ms')");
	isnt($out, 't', "$what: nothing counts as done");
	$node->stop;
	is(substr(content($file), 8192) eq substr($sound, 8192), 1, "$what: nothing is written over");
	put($file, $sound);
}
$node->start;
undo_quiet($node, 'control page back');
is($node->safe_psql('postgres', 'SELECT count(*), min(v) = max(v), min(v) = repeat(\'a\', 100) FROM t'), '2000|t|t', 'rolled back with the sound page');

# as many as the launcher couldn't look at one by one
my @writers = map { session($node) } 1 .. 40;
ask($_, q{BEGIN; INSERT INTO w VALUES (0, 'w')}) for @writers;
for (@writers)
{
	ask($_, 'COMMIT');
	finish_session($_);
}
$node->stop;
my @many = glob $node->data_dir . '/base/9/1??';
cmp_ok(scalar(@many), '>=', 40, 'many logs');
overwrite($_, @{ $control{'no blocks'} }) for @many;
$node->start;
others_are_rolled_back('many damaged logs');
$node->stop;
is(join("\n", grep { /TRAP:|PANIC:|terminated by signal/ } split /\n/, slurp_file($node->logfile)), '', 'no crash');

# --- a record that names itself as the one before it: walks end with an error
$node = PostgreSQL::Test::Cluster->new('rings');
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
CREATE TABLE other (a int) USING zheap;
CREATE TABLE sp (id int, v text) USING zheap;
INSERT INTO sp SELECT g, repeat(chr(97 + g % 26), 380) FROM generate_series(1, 20) g;
BEGIN; INSERT INTO other VALUES (1); PREPARE TRANSACTION 'older';
DELETE FROM sp WHERE id <= 6;
BEGIN; INSERT INTO sp SELECT 100 + g, repeat('n', 380) FROM generate_series(1, 6) g; COMMIT;
CREATE TABLE rr (id int, v int) USING zheap;
INSERT INTO rr SELECT g, 0 FROM generate_series(1, 10) g});
$node->safe_psql('postgres', join('; ', 'BEGIN', (map { "UPDATE rr SET v = $_ WHERE id = 5" } 1 .. 6), "PREPARE TRANSACTION 'r'"));
my $slot = $node->safe_psql('postgres', q{SELECT id FROM zheap_page_slots('rr', 0) WHERE status = 'running'});
my @updates = split /\n/, $node->safe_psql('postgres', qq{SELECT urp FROM zheap_undo_records('rr', 0, $slot) WHERE kind = 'update'});
is(scalar(@updates), 6, 'a chain of six');

# two records of one undo page, newest first; the newer one's link is set
sub link_to_itself
{
	my ($newer, $older) = @_;
	my ($log, $block, $at) = split /\//, $newer;
	my (undef, $block2, $below) = split /\//, $older;
	is($block, $block2, 'records of one page');
	my $f = $node->data_dir . '/base/9/' . (100 + $log);
	my $bytes = content($f);
	my $where = index(substr($bytes, $block * 8192 + $at, 16), pack('S', $below));
	cmp_ok($where, '>', 0, 'a link is there');
	overwrite($f, $block * 8192 + $at + $where, pack('S', $at));
	return;
}
# of records of one row, newest first, on many undo pages: the last one whose link
# leads to another page gets one to a page written later
sub link_to_later_page
{
	my @urps = @_;
	my @at = map { [ split /\// ] } @urps;
	my $i = $#at - 1;
	$i-- while $at[$i][1] == $at[ $i + 1 ][1];
	my ($log, $block, $offset) = @{ $at[$i] };
	my ($to) = grep { $at[$_][1] == $block + 7 } 0 .. $i;
	cmp_ok($i - $to, '>', 1000, 'a ring of more records than a rollback takes at once');
	my $f = $node->data_dir . '/base/9/' . (100 + $log);
	# form 1: the same log, and a byte of the blocks' difference, zigzag
	my $where = index(substr(content($f), $block * 8192 + $offset, 20),
		pack('SC', 1 << 13 | $at[ $i + 1 ][2], 2 * ($block - $at[ $i + 1 ][1]) - 1));
	cmp_ok($where, '>', 0, 'a link to another page is there');
	overwrite($f, $block * 8192 + $offset + $where, pack('SC', 1 << 13 | $at[$to][2], 2 * 7));
	return;
}
$node->safe_psql('postgres', q{
CREATE TABLE far (id int, v text) USING zheap;
INSERT INTO far SELECT g, 'x' FROM generate_series(1, 3) g;
CREATE PROCEDURE hot() LANGUAGE plpgsql AS $$ BEGIN
	FOR i IN 1 .. 4000 LOOP UPDATE far SET v = 'version ' || (i + 10000) WHERE id = 2; END LOOP; END $$});
$node->safe_psql('postgres', q{BEGIN; CALL hot(); PREPARE TRANSACTION 'f'});
$slot = $node->safe_psql('postgres', q{SELECT id FROM zheap_page_slots('far', 0) WHERE status = 'running'});
my @far = split /\n/, $node->safe_psql('postgres', qq{SELECT urp FROM zheap_undo_records('far', 0, $slot) WHERE kind = 'update'});
is(scalar(@far), 4000, 'a chain of 4,000');
my @chain = split /\n/, $node->safe_psql('postgres', q{SELECT urp FROM zheap_undo_records('sp', 0, 0)});
is(scalar(@chain), 2, 'a spill chain of two');
$node->stop;
link_to_itself(@chain);
link_to_itself(@updates[ 2, 3 ]);
link_to_later_page(@far);
$node->start;
my $rings = qr/undo of table block 0 comes back to undo record/;
for my $sql ('SELECT count(*) FROM sp', q{SELECT * FROM sp WHERE ctid = '(0,2)'})
{
	my (undef, undef, $e) = $node->psql('postgres', $sql, timeout => 180);
	like($e, $rings, "$sql ends");
}
(undef, $out, $err) = $node->psql('postgres', q{SELECT what FROM zheap_check('sp')});
like($out . $err, $rings, 'zheap_check() names it');
(undef, $out, $err) = $node->psql('postgres', $_) for 'VACUUM sp', "INSERT INTO sp SELECT 1, repeat('z', 380) FROM generate_series(1, 5)";
$node->safe_psql('postgres', q{ROLLBACK PREPARED 'r'});
(undef, $out) = $node->psql('postgres', q{SELECT pg_zheap_drain_undo('1 s')});
isnt($out, 't', 'a ring is not rolled back');
ok($node->poll_query_until('postgres',
	q{SELECT count(*) > 0 FROM pg_stat_progress_zheap_rollback WHERE last_error ~ 'as an older one'}), 'and shown');
(undef, undef, $err) = $node->psql('postgres', 'SELECT sum(v) FROM rr', timeout => 180);
like($err, qr/ERROR:.*names .* as an older one/, 'a reader of it ends');
(undef, undef, $err) = $node->psql('postgres', "SELECT count(*) FROM zheap_undo_records('far', 0, $slot)", timeout => 180);
like($err, $rings, 'a list of the records ends');
$node->safe_psql('postgres', q{ROLLBACK PREPARED 'f'});
ok($node->poll_query_until('postgres',
	q{SELECT count(*) > 0 FROM pg_stat_progress_zheap_rollback WHERE last_error ~ 'comes back'}), 'and the rollback');
for my $sql ('SELECT sum(length(v)) FROM far', 'UPDATE far SET v = 0 WHERE id = 3')
{
	(undef, undef, $err) = $node->psql('postgres', $sql, timeout => 180);
	like($err, $rings, "$sql ends");
}
is($node->safe_psql('postgres', 'SELECT count(*) FROM other'), '0', 'server lives');
$node->stop('immediate');
is(join("\n", grep { /TRAP:|PANIC:|terminated by signal/ } split /\n/, slurp_file($node->logfile)), '', 'no crash');
done_testing();
