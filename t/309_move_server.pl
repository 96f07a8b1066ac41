# docs/logical-replication.md played: a server moves to another one, of a later
# major if ZHEAP_OLD_SERVER names the folder of an older server, while pgbench
# writes; then a standby becomes a subscriber by pg_createsubscriber (17),
# while pgbench writes.  No row is lost, none is there twice.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $page = slurp_file("$FindBin::RealBin/../docs/logical-replication.md");
my @block;
push @block, [ $1, $2 ] while $page =~ /^```sql\n-- (old|new) server[^\n]*\n(.*?)^```$/msg;
is(join(' ', map { $_->[0] } @block), 'old new new old old old new', 'blocks of the page');

my @older = $ENV{ZHEAP_OLD_SERVER} ? (install_path => $ENV{ZHEAP_OLD_SERVER}) : ();
my $old = PostgreSQL::Test::Cluster->new('old', @older);
$old->init(allows_streaming => 'logical');
$old->append_conf('postgresql.conf', "shared_preload_libraries = 'zheap_am'\nmax_prepared_transactions = 10\nlogical_decoding_work_mem = 64kB\n");
# what tests of a newer major set
$old->adjust_conf('postgresql.conf', 'autovacuum_worker_slots', undef) if @older;
$old->start;
my $new = zheap_node('new');
$new->start;
my $major = int($old->safe_psql('postgres', 'SHOW server_version_num') / 10000);
note "from $major to " . int($new->safe_psql('postgres', 'SHOW server_version_num') / 10000);

# --- tables of all kinds, and clients that change them
my $schema = q{
CREATE EXTENSION zheap_am;
SET default_table_access_method = zheap;
CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL, note text);
CREATE INDEX ON account (balance);
CREATE TABLE item (id bigserial PRIMARY KEY, account int, amount int);
CREATE TABLE journal (account int, amount int, at timestamptz DEFAULT clock_timestamp());
CREATE TABLE tally (k int, n int);
CREATE TABLE state (k int, day int, v int, PRIMARY KEY (k, day)) PARTITION BY LIST (day);
CREATE TABLE state_1 PARTITION OF state FOR VALUES IN (1);
CREATE TABLE state_2 PARTITION OF state FOR VALUES IN (2) USING heap;
};
my @tables = ('account', 'item', 'journal', 'tally', 'state');
$old->safe_psql('postgres', "$schema
INSERT INTO account SELECT g, 0, repeat(md5(g::text), g % 200) FROM generate_series(1, 1000) g;
INSERT INTO state SELECT g, 1 + g % 2, 0 FROM generate_series(1, 200) g; INSERT INTO tally SELECT g, 0 FROM generate_series(1, 200) g");
$new->safe_psql('postgres', $schema);
# the page's block, which reads pg_class, comes to tally first, clients to journal
$old->safe_psql('postgres', 'ALTER TABLE journal SET (fillfactor = 100)');
my $script = $old->basedir . '/clients.sql';
# each client has rows of its own, so that none runs into a deadlock
put($script, q{\set a random(0, 330) * 3 + 1 + :client_id
\set k random(0, 60) * 3 + 1 + :client_id
\set d random(-100, 100)
BEGIN;
UPDATE account SET balance = balance + :d WHERE id = :a;
INSERT INTO item (account, amount) VALUES (:a, :d);
SAVEPOINT s;
UPDATE account SET note = repeat(md5((:d)::text), 150) WHERE id = :a;
DELETE FROM item WHERE account = :k;
ROLLBACK TO s;
UPDATE account SET note = note || 'x' WHERE id = :k AND length(note) < 9000;
INSERT INTO journal (account, amount) VALUES (:a, :d);
UPDATE tally SET n = n + 1 WHERE k = :k;
UPDATE state SET day = 3 - day, v = v + 1 WHERE k = :k;
DELETE FROM item WHERE account = :k AND amount < 0;
COMMIT;
});

my $clients;
my ($out, $err);
sub clients_begin
{
	my ($node) = @_;
	($out, $err) = ('', '');
	# the server's own program; it is told to stop, not how long to run
	$clients = IPC::Run::start([ $node->installed_command('pgbench'), '-n', '-c', '3', '-T', '3600', '-R', '100', '-f', $script, $node->connstr('postgres') . ' application_name=clients' ], '>', \$out, '2>', \$err);
	clients_wrote($node, 20);
}
# so many transactions more
sub clients_wrote
{
	my ($node, $n) = @_;
	my $at = $node->safe_psql('postgres', q{SELECT last_value FROM item_id_seq});
	ok($node->poll_query_until('postgres', "SELECT last_value >= $at + $n FROM item_id_seq"), 'clients write') or diag($err);
}
sub clients_end
{
	my ($node) = @_;
	$clients->signal('INT');
	eval { $clients->finish };
	$node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'clients'}) or die 'clients go on';
	unlike($err, qr/ERROR/, 'no client met an error');
}
sub same
{
	my ($from, $to, $what) = @_;
	for my $t (@tables)
	{
		my ($x, $y) = map { $_->safe_psql('postgres', "SELECT count(*), md5(string_agg(r::text, ',' ORDER BY r::text)) FROM $t r") } $from, $to;
		is($y, $x, "$what: $t");
	}
}

clients_begin($old);
my $published = sub { $old->safe_psql('postgres', $block[0][1]) };
$published->();
(my $subscribe = $block[1][1]) =~ s/host=old\.example\.com dbname=shop/@{[$old->connstr . ' dbname=postgres']}/;
isnt($subscribe, $block[1][1], 'the connection of the page was replaced');
$new->safe_psql('postgres', $subscribe);
ok($new->poll_query_until('postgres', $block[2][1]), 'all copies are done');
clients_wrote($old, 50);
clients_end($old);
my $lsn = $old->safe_psql('postgres', $block[3][1]);
(my $passed = $block[4][1]) =~ s{0/1A2B3C4D}{$lsn};
isnt($passed, $block[4][1], 'the LSN of the page was replaced');
ok($old->poll_query_until('postgres', $passed), 'the new server has all of it');
same($old, $new, 'moved');
my $sequences = $old->safe_psql('postgres', $block[5][1]);
like($sequences, qr/^SELECT setval\('public\.item_id_seq', \d+\)$/, 'sequences');
$new->safe_psql('postgres', $sequences);
$new->safe_psql('postgres', $block[6][1]);
is($old->safe_psql('postgres', 'SELECT count(*) FROM pg_replication_slots'), '0', 'no slot is left');
clients_begin($new);
clients_end($new);
check_tables($new, 'of the new server');
undo_quiet($new, 'of the new server');
$new->stop;

# --- pg_createsubscriber
SKIP: {
	skip 'no pg_createsubscriber before 17', 8 if $major < 17;
	$old->safe_psql('postgres', 'DROP PUBLICATION everything');
	my $standby = zheap_standby($old, name => 'standby');
	clients_begin($old);
	$standby->stop;
	my @command = ('pg_createsubscriber', '-D', $standby->data_dir, '-P', $old->connstr('postgres'), '-p', $standby->port, '-s', $standby->host, '-d', 'postgres', '--subscription', 'made', '--publication', 'made', '--replication-slot', 'made', '-t', '180');
	command_ok(\@command, 'pg_createsubscriber');
	$standby->start;
	clients_wrote($old, 50);
	clients_end($old);
	$lsn = $old->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
	ok($old->poll_query_until('postgres', "SELECT confirmed_flush_lsn >= '$lsn' FROM pg_replication_slots WHERE slot_name = 'made'"), 'the subscriber has all of it');
	same($old, $standby, 'made of a standby');
	$standby->safe_psql('postgres', 'DROP SUBSCRIPTION made');
	check_tables($standby, 'of the subscriber');
	undo_quiet($standby, 'of the subscriber');
	$standby->stop;
	log_is_clean($standby);
}
$old->stop;
log_is_clean($_) for $old, $new;
done_testing();
