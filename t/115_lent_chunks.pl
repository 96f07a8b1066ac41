# Chunks of a value that changes in part: what they have in common with those of
# the value before is not logged again, redo copies it from the pages of those
# (U24).  Values that change at the beginning, in the middle, by length, as a
# whole; compressed ones; kill -9 at once and behind whatever replaces the
# table's file; a backup some of whose pages are newer than the record;
# full_page_writes off and on again; decoding; files copied with wal_level =
# minimal; a standby that is promoted.  All pages are compared with the primary's
# (wal_consistency_checking).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('primary', allows_streaming => 1, conf => q{
wal_consistency_checking = 'zheap'
autovacuum = off
shared_buffers = 8MB
checkpoint_timeout = 1h
max_wal_size = 4GB
wal_keep_size = 4GB
allow_in_place_tablespaces = on
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE FUNCTION val(seed int, n int) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT left(string_agg(md5(seed || '.' || g), ''), n) FROM generate_series(1, n / 32 + 1) g $$;
CREATE TABLE z (id int PRIMARY KEY, t text) USING zheap;
ALTER TABLE z ALTER t SET STORAGE EXTERNAL;
CREATE TABLE p (id int PRIMARY KEY, t text) USING zheap;
CREATE TABLE h (id int PRIMARY KEY, t text) USING heap;
});
my @tables = qw(z p);
my $seen = join ' UNION ALL ', map { "SELECT '$_', count(*), sum(hashtextextended(t, id)::numeric) FROM $_" } @tables;

# p's values are compressed, to more than a page all the same; h says what both
# have to hold
sub fill
{
	return $node->safe_psql('postgres', q{
TRUNCATE z, p, h;
INSERT INTO h SELECT g, val(g, 2100 + g * g * 8) FROM generate_series(1, 60) g;
INSERT INTO z TABLE h;
INSERT INTO p SELECT id, repeat(t, 1 + id % 2) FROM h;
VACUUM z, p});
}

my $round = 0;

# a part of each value; some grow, some shrink, some are another one
sub change
{
	for (1 .. 3)
	{
		$round++;
		my $new = qq{CASE id % 6
WHEN 0 THEN overlay(t placing 'round $round' from 1)
WHEN 1 THEN overlay(t placing md5('$round') from length(t) / 2)
WHEN 2 THEN left(t, 1990) || '$round' || substr(t, 1990)
WHEN 3 THEN left(t, length(t) - 40) || md5('$round')
WHEN 4 THEN substr(t, 1 + $round % 3) || '$round'
ELSE val(id + $round, length(t)) END};
		$node->safe_psql('postgres', "UPDATE h SET t = $new; UPDATE z SET t = $new");
		$node->safe_psql('postgres', qq{
BEGIN; UPDATE z SET t = reverse(t) WHERE id % 5 = 0; ROLLBACK;
UPDATE p SET t = left(t, 500) || '$round' || substr(t, 500)});
	}
}

# the insertions since then whose rows lack what other pages have
sub lent_since
{
	my $wal = wal_since($node, @_);
	like($wal, qr/custom151.*UNKNOWN \([67]0\)/, 'insertions are in WAL');
	return scalar grep { /custom151.*UNKNOWN \([67]0\).*blkref #4/ } split /\n/, $wal;
}

sub same_as_heap
{
	my ($what) = @_;
	is($node->safe_psql('postgres', 'SELECT count(*) FROM h JOIN z USING (id) WHERE h.t = z.t'), 60, "$what: heap's values");
}

sub round_with_reader
{
	my ($what, $more) = @_;
	fill();
	my $old = session($node);
	my $before = ask($old, "BEGIN ISOLATION LEVEL REPEATABLE READ; $seen");
	my $lsn = wal_position($node);
	change();
	is(ask($old, $seen), $before, "$what: an old snapshot sees what was replaced");
	my $lent = lent_since($lsn);
	ask($old, 'COMMIT');
	finish_session($old);
	same_as_heap($what);
	$node->safe_psql('postgres', $more) if defined $more;
	my $digest = tables_digest($node, \@tables);
	kill_server($node);
	ok(start_after_kill($node), "$what: recovered");
	is(tables_digest($node, \@tables), $digest, "$what: the same rows");
	check_tables($node, $what);
	return $lent;
}

cmp_ok(round_with_reader('kill'), '>', 100, 'bytes of chunks were copied by redo');

# --- WAL of a change of 32 bytes, without images
my %bytes;
$node->safe_psql('postgres', 'ALTER TABLE h ALTER t SET STORAGE EXTERNAL');
fill();
$node->safe_psql('postgres', 'CHECKPOINT');
my $lsn;
for my $table (qw(h z h z))
{
	$lsn = wal_position($node);
	$node->safe_psql('postgres', "UPDATE $table SET t = overlay(t placing md5(t) from 1000)");
	$bytes{$table} = 0;
	$bytes{$table} += /len \(rec\/tot\): +(\d+)\// ? $1 : 0 foreach split /\n/, wal_since($node, $lsn);
}
cmp_ok($bytes{h}, '>', 60 * 8000, 'heap logs whole values');
cmp_ok($bytes{z}, '<', $bytes{h} / 3, "$bytes{z} bytes of WAL, $bytes{h} of heap's");

# --- some pages older than the record, others newer
for my $newer (0, 1)
{
	fill();
	$lsn = wal_position($node);
	my $backup = session($node);
	ask($backup, "SELECT pg_backup_start('lent$newer', true)");
	my $copy = $node->backup_dir . "/lent$newer";
	mkdir $node->backup_dir;
	system_or_bail('cp', '-a', $node->data_dir, $copy);
	change();
	cmp_ok(lent_since($lsn), '>', 100, 'again');
	my $digest = tables_digest($node, \@tables);
	$node->safe_psql('postgres', 'CHECKPOINT');
	my $file = $node->safe_psql('postgres', "SELECT pg_relation_filepath(reltoastrelid) FROM pg_class WHERE relname = 'z'");

	# every other page of the chunks is the newer one
	my ($new, $old) = (slurp_file($node->data_dir . "/$file"), slurp_file("$copy/$file"));
	for (my $i = 0; $i * 8192 < length($new); $i++)
	{
		my $take = $i % 2 == $newer && ($i + 1) * 8192 <= length($old) ? $old : $new;
		substr($new, $i * 8192, 8192) = substr($take, $i * 8192, 8192);
	}
	put("$copy/$file", $new);
	my $label = ask($backup, "SELECT labelfile FROM pg_backup_stop()");
	finish_session($backup);
	system_or_bail('rm', '-rf', "$copy/pg_wal");
	system_or_bail('cp', '-a', $node->data_dir . '/pg_wal', "$copy/pg_wal");
	$label =~ s/^(?!START|CHECKPOINT|BACKUP|LABEL).*\n?//mg;
	put("$copy/backup_label", "$label\n");
	unlink "$copy/postmaster.pid", "$copy/postmaster.opts";

	my $restored = PostgreSQL::Test::Cluster->new("restored$newer");
	$restored->init_from_backup($node, "lent$newer");
	$restored->start;
	is(tables_digest($restored, \@tables), $digest, 'restored: the same rows');
	check_tables($restored, 'restored');
	$restored->stop;
	log_is_clean($restored);
}

# --- no images of pages.  Where redo meets a page that was cut off later and made
# anew, without images it finds zeroes, which the comparison takes for a fault.
$node->append_conf('postgresql.conf', "full_page_writes = off\nwal_consistency_checking = ''");
$node->restart;
is(round_with_reader('no images'), 0, 'without images of pages all bytes are logged');
fill();
ok(switch_images($node, 'on'), 'full_page_writes is on again');
$lsn = wal_position($node);
change();
is(lent_since($lsn), 0, 'pages without an image may be anywhere until the next checkpoint');
$node->append_conf('postgresql.conf', "wal_consistency_checking = 'zheap'");
$node->reload;
$node->safe_psql('postgres', 'CHECKPOINT');
cmp_ok(round_with_reader('images again'), '>', 100, 'after the checkpoint redo copies');

# --- what may come behind the record
$node->safe_psql('postgres', "CREATE TABLESPACE there LOCATION ''");
round_with_reader('VACUUM', 'VACUUM z, p');
round_with_reader('VACUUM FULL', 'VACUUM FULL z; VACUUM FULL p');
round_with_reader('SET TABLESPACE', 'ALTER TABLE z SET TABLESPACE there; ALTER TABLE p SET TABLESPACE there');
round_with_reader('TRUNCATE', 'TRUNCATE z; DELETE FROM p; VACUUM p');
round_with_reader('DROP TABLE', q{DROP TABLE z;
CREATE TABLE z (id int PRIMARY KEY, t text) USING zheap; ALTER TABLE z ALTER t SET STORAGE EXTERNAL});

# --- decoding gets whole chunks
fill();
$node->append_conf('postgresql.conf', 'wal_level = logical');
$node->restart;
$node->safe_psql('postgres', 'CHECKPOINT');
$lsn = wal_position($node);
change();
is(lent_since($lsn), 0, 'for decoding all bytes are logged');
$node->append_conf('postgresql.conf', 'wal_level = replica');
$node->restart;

# --- pages copied without WAL, with the LSNs that they have
$node->append_conf('postgresql.conf', q{
wal_level = minimal
max_wal_senders = 0
wal_skip_threshold = 0
wal_consistency_checking = ''
});
$node->restart;
fill();
$node->safe_psql('postgres', 'CHECKPOINT');
change();
$node->safe_psql('postgres', 'ALTER TABLE z SET TABLESPACE there; ALTER TABLE p SET TABLESPACE pg_default');
$lsn = wal_position($node);
change();
is(lent_since($lsn), 0, 'what was copied has no images until the next checkpoint');
# so that newer pages are on disk
$node->safe_psql('postgres', "CREATE TABLE junk AS SELECT repeat('x', 1000) t LIMIT 0; INSERT INTO junk SELECT repeat('x', 1000) FROM generate_series(1, 30000)");
my $copied = tables_digest($node, \@tables);
kill_server($node);
ok(start_after_kill($node), 'copied: recovered');
is(tables_digest($node, \@tables), $copied, 'copied: the same rows');
same_as_heap('copied');
check_tables($node, 'copied');
$node->safe_psql('postgres', 'DROP TABLE junk; CHECKPOINT');
cmp_ok(round_with_reader('minimal'), '>', 100, 'after the checkpoint redo copies');
$node->append_conf('postgresql.conf', q{
wal_level = replica
max_wal_senders = 10
wal_consistency_checking = 'zheap'
});
$node->restart;

# --- a standby, while it is one and when it isn't any more
my $standby = zheap_standby($node, slot => 'standby', feedback => 1);
fill();
$node->wait_for_catchup($standby);
ok($node->poll_query_until('postgres',
	'SELECT count(*) = 1 FROM pg_replication_slots WHERE xmin IS NOT NULL AND active'), 'feedback');
my $old = session($standby);
my $before = ask($old, "BEGIN ISOLATION LEVEL REPEATABLE READ; $seen");
$lsn = wal_position($node);
change();
cmp_ok(lent_since($lsn), '>', 100, 'redo of the standby copies');
$node->wait_for_catchup($standby);
is(ask($old, $seen), $before, 'an old snapshot of the standby');
my $digest = tables_digest($node, \@tables);
ask($old, 'COMMIT');
finish_session($old);
kill_server($node);
$standby->promote;
ok($standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()'), 'promoted');
is(tables_digest($standby, \@tables), $digest, 'the same rows');
$node = $standby;
cmp_ok(round_with_reader('after the promotion'), '>=', 0, 'copied or not');

$node->stop;
log_is_clean($node);
done_testing();
