/* schema.c: the tables, and the steps that bring an older database to the present ones. */
#include "store.h"

/* Columns that are looked at without the contents come first: SQLite then reads no overflow page.
 * entry.hash = SHA-256(kind, ns, key); blob.hash = SHA-256(ns, digest); chunk.id = blob id * 256 +
 * part; entry.sum covers every other column that is served. recency is apart because updating a
 * wide row rewrites it. */
const struct stx__migration stx__schema_steps[] = {
	{ 1,
	  "CREATE TABLE entry(id INTEGER PRIMARY KEY, hash BLOB NOT NULL, kind INTEGER NOT NULL,"
	  " ns TEXT NOT NULL, key BLOB NOT NULL, blob INTEGER, digest BLOB, size INTEGER NOT NULL,"
	  " sum BLOB NOT NULL, value BLOB NOT NULL);"
	  "CREATE UNIQUE INDEX entry_hash ON entry(hash);"
	  "CREATE INDEX entry_blob ON entry(blob) WHERE blob IS NOT NULL;"
	  "CREATE TABLE blob(id INTEGER PRIMARY KEY, hash BLOB NOT NULL, ns TEXT NOT NULL,"
	  " digest BLOB NOT NULL, raw_bytes INTEGER NOT NULL, stored_bytes INTEGER NOT NULL,"
	  " encoding INTEGER NOT NULL, chunks INTEGER NOT NULL, data BLOB);"
	  "CREATE UNIQUE INDEX blob_hash ON blob(hash);"
	  "CREATE TABLE chunk(id INTEGER PRIMARY KEY, data BLOB NOT NULL);"
	  "CREATE TABLE recency(id INTEGER PRIMARY KEY, used INTEGER NOT NULL);" },
	/* Tune records, entries of kind 5: a program of version 1 would take them for damage, so it
	 * must not open the store. The index lists them apart. */
	{ 2, "CREATE INDEX entry_tune ON entry(ns) WHERE kind=5;" },
};
const size_t stx__schema_n = sizeof stx__schema_steps / sizeof *stx__schema_steps;

stx_err stx__schema_version(sqlite3 *h, int64_t *version, struct stx_diag *d)
{
	int64_t app = 0, tables = 0;
	*version = 0;
	int rc = stx__sql_int(h, "PRAGMA application_id", &app);
	if (rc == SQLITE_OK)
		rc = stx__sql_int(h, "SELECT count(*) FROM sqlite_schema", &tables);
	if (rc != SQLITE_OK)
		return stx__sql_err(h, rc, d);
	if (!tables)
		return STX_E_OK;
	if (app != STX__APPLICATION_ID)
		return stx_fail(
			d, STX_E_USAGE, "cache", "",
			"the database there belongs to another program: choose another directory");
	rc = stx__sql_int(h, "SELECT version FROM schema_version", version);
	if (rc == SQLITE_NOTFOUND || rc == SQLITE_ERROR)
		rc = SQLITE_CORRUPT;
	return rc == SQLITE_OK ? STX_E_OK : stx__sql_err(h, rc, d);
}

static stx_err run_steps(sqlite3 *h, const struct stx__migration *steps, size_t n, int64_t from,
			 struct stx_diag *d)
{
	char sql[128];
	stx_err e = STX_E_OK;
	if (!from) {
		snprintf(sql, sizeof sql,
			 "PRAGMA application_id=%d;"
			 "CREATE TABLE schema_version(version INTEGER NOT NULL);"
			 "INSERT INTO schema_version VALUES(0);",
			 STX__APPLICATION_ID);
		e = stx__sql_exec(h, sql, d);
	}
	for (size_t i = 0; i < n && !e; i++) {
		if (steps[i].version <= from)
			continue;
		e = stx__sql_exec(h, steps[i].sql, d);
		snprintf(sql, sizeof sql, "UPDATE schema_version SET version=%d", steps[i].version);
		if (!e)
			e = stx__sql_exec(h, sql, d);
	}
	return e;
}

stx_err stx__schema_migrate(sqlite3 *h, const struct stx__migration *steps, size_t n,
			    struct stx_diag *d)
{
	int64_t version = 0;
	int64_t last = n ? steps[n - 1].version : 0;
	stx_err e = stx__schema_version(h, &version, d);
	if (e)
		return e;
	if (version > last)
		return stx_fail(
			d, STX_E_VERSION, "cache", "",
			"the store has schema %lld, this program knows up to %lld: use a newer "
			"program or another cache directory",
			(long long)version, (long long)last);
	if (version == last)
		return STX_E_OK;
	e = stx__sql_exec(h, "BEGIN IMMEDIATE", d);
	if (e)
		return e;
	e = run_steps(h, steps, n, version, d);
	if (!e)
		e = stx__sql_exec(h, "COMMIT", d);
	if (e && !sqlite3_get_autocommit(h))
		sqlite3_exec(h, "ROLLBACK", NULL, NULL, NULL);
	return e;
}
