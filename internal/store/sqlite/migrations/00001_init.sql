-- +goose Up

-- A job, and the state that its events amount to. num orders jobs by when
-- they were created; state is the JSON of glovebox.Job without its task.
CREATE TABLE jobs (
    num         INTEGER PRIMARY KEY AUTOINCREMENT,
    id          TEXT    NOT NULL UNIQUE,
    tenant      TEXT    NOT NULL,
    status      TEXT    NOT NULL,
    seq         BIGINT  NOT NULL,
    fence       BIGINT  NOT NULL DEFAULT 0,
    worker      TEXT    NOT NULL DEFAULT '',
    lease_until BIGINT  NOT NULL DEFAULT 0, -- Unix milliseconds
    state       TEXT    NOT NULL
);
CREATE INDEX jobs_by_tenant ON jobs (tenant, status, num);
CREATE INDEX jobs_pending ON jobs (num) WHERE status = 'pending';
CREATE INDEX jobs_running ON jobs (lease_until) WHERE status = 'running';

-- Tasks are apart from jobs because they are long and never change, and
-- states are rewritten with every event. folded is the task in lower case.
CREATE TABLE tasks (
    job    BIGINT NOT NULL PRIMARY KEY,
    task   TEXT   NOT NULL,
    folded TEXT   NOT NULL
);

CREATE TABLE events (
    job  BIGINT NOT NULL,
    seq  BIGINT NOT NULL,
    time BIGINT NOT NULL, -- Unix nanoseconds
    type TEXT   NOT NULL,
    data TEXT   NOT NULL, -- JSON
    PRIMARY KEY (job, seq)
) WITHOUT ROWID;

CREATE TABLE signals (
    id   INTEGER PRIMARY KEY AUTOINCREMENT,
    job  BIGINT NOT NULL,
    data TEXT   NOT NULL -- JSON of glovebox.Signal
);
CREATE INDEX signals_by_job ON signals (job, id);

CREATE TABLE idempotency (
    tenant TEXT   NOT NULL,
    key    TEXT   NOT NULL,
    digest TEXT   NOT NULL, -- in hex
    job    BIGINT NOT NULL,
    PRIMARY KEY (tenant, key)
) WITHOUT ROWID;
CREATE INDEX idempotency_by_job ON idempotency (job);

CREATE TABLE tokens (
    id         TEXT   NOT NULL PRIMARY KEY,
    tenant     TEXT   NOT NULL,
    scope      TEXT   NOT NULL,
    hash       TEXT   NOT NULL UNIQUE, -- SHA-256 of the token, in hex
    created_at BIGINT NOT NULL         -- Unix nanoseconds
);

-- +goose Down
DROP TABLE tokens;
DROP TABLE idempotency;
DROP TABLE signals;
DROP TABLE events;
DROP TABLE tasks;
DROP TABLE jobs;
