# Rows that a spill moves to undo are not logged again: redo copies them from
# the table's page (U24).  Undo pages of a backup that are older than the
# record, beside table pages from which the rows are gone; full_page_writes off
# and on again; kill -9, DROP TABLE, TRUNCATE, SET TABLESPACE and VACUUM FULL
# behind the record; a standby that is promoted.  All pages are compared with
# the primary's (wal_consistency_checking).
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
CREATE TABLE small (id int PRIMARY KEY, t text) USING zheap;
});
my @tables = qw(z small);
my $seen = join ' UNION ALL ', map { "SELECT '$_', count(*), sum(hashtextextended(t, id)::numeric) FROM $_" } @tables;

sub fill
{
	return $node->safe_psql('postgres', q{
TRUNCATE z, small;
INSERT INTO z SELECT g, val(g, 7000 + g * 10) FROM generate_series(1, 60) g;
INSERT INTO small SELECT g, val(g, 40 + g % 150) FROM generate_series(1, 2000) g;
VACUUM z, small});
}

# rows of all sizes go to undo, and others take their place
my $round = 0;

sub spill
{
	for (1 .. 3)
	{
		$round++;
		$node->safe_psql('postgres', qq{
UPDATE z SET t = val(id + $round, 7000 + id * 10);
DELETE FROM small WHERE id % 3 = $round % 3;
INSERT INTO small SELECT g, val(g + $round, 40 + g % 150) FROM generate_series(1, 2000) g ON CONFLICT DO NOTHING});
	}
}

sub lent_since
{
	my $wal = wal_since($node, @_);
	like($wal, qr/custom151.*UNKNOWN \(20\)/, 'spills are in WAL');
	return scalar grep { /custom151.*UNKNOWN \(20\).*blkref #1/ } split /\n/, $wal;
}

# Everything that was replaced is still there for an old snapshot, and recovery
# brings back what there was.
sub round_with_reader
{
	my ($what, $more) = @_;
	fill();
	my $old = session($node);
	my $before = ask($old, "BEGIN ISOLATION LEVEL REPEATABLE READ; $seen");
	my $lsn = wal_position($node);
	spill();
	is(ask($old, $seen), $before, "$what: an old snapshot sees what was spilled");
	my $lent = lent_since($lsn);
	ask($old, 'COMMIT');
	finish_session($old);
	$node->safe_psql('postgres', $more) if defined $more;
	my $digest = tables_digest($node, \@tables);
	kill_server($node);
	ok(start_after_kill($node), "$what: recovered");
	is(tables_digest($node, \@tables), $digest, "$what: the same rows");
	check_tables($node, $what);
	return $lent;
}

cmp_ok(round_with_reader('kill'), '>', 100, 'rows were copied by redo');

# --- undo pages older than the record, table pages newer
fill();
my $old = session($node);
ask($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
my $lsn = wal_position($node);
my $backup = session($node);
ask($backup, "SELECT pg_backup_start('lent', true)");
my $copy = $node->backup_dir . '/lent';
mkdir $node->backup_dir;
system_or_bail('cp', '-a', $node->data_dir, $copy);
spill();
cmp_ok(lent_since($lsn), '>', 100, 'again');
my $digest = tables_digest($node, \@tables);
$node->safe_psql('postgres', 'CHECKPOINT');
my $db = $node->safe_psql('postgres', "SELECT oid FROM pg_database WHERE datname = 'postgres'");
system_or_bail('rm', '-rf', "$copy/base/$db");
system_or_bail('cp', '-a', $node->data_dir . "/base/$db", "$copy/base/$db");
my $label = ask($backup, "SELECT labelfile FROM pg_backup_stop()");
ask($old, 'COMMIT');
finish_session($_) for $old, $backup;
system_or_bail('rm', '-rf', "$copy/pg_wal");
system_or_bail('cp', '-a', $node->data_dir . '/pg_wal', "$copy/pg_wal");
$label =~ s/^(?!START|CHECKPOINT|BACKUP|LABEL).*\n?//mg;
put("$copy/backup_label", "$label\n");
unlink "$copy/postmaster.pid", "$copy/postmaster.opts";

my $restored = PostgreSQL::Test::Cluster->new('restored');
$restored->init_from_backup($node, 'lent');
$restored->start;
is(tables_digest($restored, \@tables), $digest, 'restored: the same rows');
check_tables($restored, 'restored');
$restored->stop;
log_is_clean($restored);

# --- no images of pages
ok(switch_images($node, 'off'), 'full_page_writes is off');
fill();
$old = session($node);
my $before = ask($old, "BEGIN ISOLATION LEVEL REPEATABLE READ; $seen");
$lsn = wal_position($node);
spill();
is(lent_since($lsn), 0, 'without images of pages rows are logged');
is(ask($old, $seen), $before, 'and read by an old snapshot');
ok(switch_images($node, 'on'), 'full_page_writes is on again');
$lsn = wal_position($node);
spill();
is(lent_since($lsn), 0, 'pages without an image may be anywhere until the next checkpoint');
is(ask($old, $seen), $before, 'an old snapshot');
$node->safe_psql('postgres', 'CHECKPOINT');
$lsn = wal_position($node);
spill();
cmp_ok(lent_since($lsn), '>', 100, 'after the checkpoint redo copies');
is(ask($old, $seen), $before, 'the old snapshot');
ask($old, 'COMMIT');
finish_session($old);
$digest = tables_digest($node, \@tables);
kill_server($node);
ok(start_after_kill($node), 'recovered');
is(tables_digest($node, \@tables), $digest, 'the same rows');
check_tables($node, 'images off and on');

# Where redo meets a page that was cut off later and made anew, without images it
# finds zeroes, which the comparison of pages takes for a fault.
$node->append_conf('postgresql.conf', "full_page_writes = off\nwal_consistency_checking = ''");
$node->restart;
is(round_with_reader('no images'), 0, 'kill without images: all rows are in WAL');
$node->append_conf('postgresql.conf', "full_page_writes = on\nwal_consistency_checking = 'zheap'");
$node->restart;
$node->safe_psql('postgres', 'CHECKPOINT');

# --- what may come behind the record
$node->safe_psql('postgres', "CREATE TABLESPACE there LOCATION ''");
round_with_reader('VACUUM', 'VACUUM z, small');
round_with_reader('VACUUM FULL', 'VACUUM FULL z; VACUUM FULL small');
round_with_reader('SET TABLESPACE', 'ALTER TABLE z SET TABLESPACE there; ALTER TABLE small SET TABLESPACE there');
round_with_reader('back again', 'ALTER TABLE z SET TABLESPACE pg_default; ALTER TABLE small SET TABLESPACE pg_default');
round_with_reader('TRUNCATE', 'TRUNCATE z; DELETE FROM small; VACUUM small');
round_with_reader('DROP TABLE', q{DROP TABLE z;
CREATE TABLE z (id int PRIMARY KEY, t text) USING zheap; ALTER TABLE z ALTER t SET STORAGE EXTERNAL});

# --- a standby, while it is one and when it isn't any more
my $standby = zheap_standby($node, slot => 'standby', feedback => 1);
fill();
$node->wait_for_catchup($standby);
ok($node->poll_query_until('postgres',
	'SELECT count(*) = 1 FROM pg_replication_slots WHERE xmin IS NOT NULL AND active'), 'feedback');
$old = session($standby);
$before = ask($old, "BEGIN ISOLATION LEVEL REPEATABLE READ; $seen");
$lsn = wal_position($node);
spill();
cmp_ok(lent_since($lsn), '>', 100, 'redo of the standby copies');
$node->wait_for_catchup($standby);
is(ask($old, $seen), $before, 'an old snapshot of the standby');
$digest = tables_digest($node, \@tables);
ask($old, 'COMMIT');
finish_session($old);
kill_server($node);
$standby->promote;
ok($standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()'), 'promoted');
is(tables_digest($standby, \@tables), $digest, 'the same rows');
$node = $standby;
cmp_ok(round_with_reader('after the promotion'), '>=', 0, 'copied or not');
# --- chunks go to undo by two, as far as a page has more than one
fill();
$node->safe_psql('postgres', 'CHECKPOINT');
my $reader = session($node);
my $values = ask($reader, "BEGIN ISOLATION LEVEL REPEATABLE READ; $seen");
my $from = wal_position($node);
$node->safe_psql('postgres', "UPDATE z SET t = val(id + 1000 + $_, 7000 + id * 10)") for 1 .. 4;
my $records = lent_since($from);
my $chunks = $node->safe_psql('postgres', q{
SELECT count(*) FROM pg_class c, generate_series(0, pg_relation_size(c.reltoastrelid) / 8192 - 1) b,
	zheap_page_items(c.reltoastrelid, b) WHERE c.relname = 'z' AND state = 'spilled'});
cmp_ok($chunks, '>', 200, "$chunks chunks were spilled");
cmp_ok($records, '<=', 0.8 * $chunks, "by $records records");
is(ask($reader, $seen), $values, 'an old snapshot sees them');
ask($reader, 'COMMIT');
finish_session($reader);

$node->stop;
log_is_clean($node);
done_testing();
