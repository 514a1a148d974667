/**
 * The documents of the relay, as in docs/http.md. Times are Unix seconds.
 *
 * @typedef {{code: string, text: string, hint: string}} Stop
 * @typedef {{insert: number, update: number, delete: number}} Counts
 * @typedef {{schema: string, table: string, total: Counts, day: Counts, hour: Counts, last: number}} TableUsage
 * @typedef {{since: number, position: number, tables: TableUsage[], left_out: number, missed: number,
 *   trouble: string}} Usage
 * @typedef {{at: number, file: string, position: number, lag_bytes: number | null, expiry: number | null,
 *   trouble: string}} Watch
 * @typedef {{host: string, port: number, state: string, file: string, position: number, gtid_set: string,
 *   last_event: number, silent_seconds: number, lag_seconds: number | null, lag_bytes: number | null,
 *   loss_seconds: number | null, watch: Watch}} Source
 * @typedef {{name: string, pid: number, state: string, restarts: number, cpu_seconds: number, rss_bytes: number,
 *   silent_seconds: number}} Process
 * @typedef {{schema: string, table: string, kinds: string, discard: number, limit: number}} Filter
 * @typedef {{limit_oldest: number, limit_newest: number, cut: number, flush: number, undecodable: number,
 *   skipped: number}} Dropped
 * @typedef {{id: number, name: string, connected: boolean, status: string, address: string, first_seen: number, last_seen: number,
 *   filters: Filter[], matched: number, confirmed: number, in_flight: number, waiting: number, max_waiting: number, repeats: number,
 *   served: number, dropped: Dropped, lagging: boolean}} Client
 * @typedef {{state: string, at: number, stop: Stop | null, seq: number, position: number, file: string, offset: number,
 *   rows: number, files: number}} ExportStatus
 * @typedef {{state: string, at: number, stop: Stop | null, table: string, rows: number, total: number,
 *   left: number}} SnapshotStatus
 * @typedef {{state: string, at: number, stop: Stop | null, position: number, file: string, offset: number,
 *   log_file: string, lines: number, bytes: number}} LogStatus
 * @typedef {{schema: string, table: string, rows: number, files: number, bytes: number, seq: number, merged: number,
 *   seconds: number, behind_since: number, stop: Stop | null}} OpenTable
 * @typedef {{state: string, at: number, stop: Stop | null, tables: OpenTable[], left_out: number}} MergeStatus
 * @typedef {{path: string, export: ExportStatus, lag_seconds: number, lag_bytes: number, snapshot: SnapshotStatus,
 *   open_tables: MergeStatus | null}} Lake
 * @typedef {{path: string, status: LogStatus, lag_seconds: number, lag_bytes: number}} LineLog
 * @typedef {{user: string, uuid: string, address: string, port: number, state: string, form: string, schema: string,
 *   table: string, version: number, gtid: string, position: number, lag_bytes: number, rows: number, bytes: number,
 *   since: number}} CDCStream
 * @typedef {{state: string, at: number, stop: Stop | null, position: number, refused: number, rows: number,
 *   bytes: number, trouble: string, streams: CDCStream[], left_out: number}} CDCStatus
 * @typedef {{address: string, port: number, processes: CDCStatus[]}} CDC
 * @typedef {{first: number, decided: number, committed: number, flushed: number, bytes: number, sequence: number,
 *   max_bytes: number}} Journal
 * @typedef {{at: number, before: string, after: string, cause: string}} Gap
 * @typedef {{version: string, protocol: string, at: number, state: string, started: number, stop: Stop | null, gaps: Gap[],
 *   source: Source, journal: Journal, rows: Counts, traffic: Record<string, number>, events: Record<string, number>,
 *   processes: Process[], clients: Client[], usage: Usage, lake: Lake | null, log: LineLog | null,
 *   cdc: CDC | null, addresses: Record<string, string>}} Stat
 *
 * @typedef {(number | null)[]} Curve
 * @typedef {{interval: number, at: number[], insert: Curve, update: Curve, delete: Curve, bytes: Curve,
 *   confirmed: Curve, lag_seconds: Curve, lag_bytes: Curve, waiting: Curve, cdc_rows: Curve,
 *   cdc_lag_bytes: Curve}} History
 * @typedef {{at: number, schema: string, table: string, kind: string, rows: number, gap_ms: number | null}} Delivery
 * @typedef {{client: Client, deliveries: Delivery[],
 *   history: {interval: number, at: number[], waiting: Curve, confirmed: Curve}}} ClientDetail
 * @typedef {{name: string, uid: number, type: string, field_type: number, meta: number, unsigned: boolean,
 *   nullable: boolean, primary: boolean, charset: string, labels: string[]}} Column
 * @typedef {{schema: string, table: string, schema_uid: number, table_uid: number, version: number, proven: boolean,
 *   columns: Column[]}} TableSchema
 * @typedef {{name: string, type: string, nullable: boolean | null, key: boolean, charset: string, generated: string,
 *   invisible: boolean}} SchemaColumn
 * @typedef {{state: string, cause: string, file: string, position: number, gtid: string, proof: string,
 *   statement: string, current: boolean, columns: SchemaColumn[]}} SchemaVersion
 * @typedef {{schema: string, table: string, damaged: string, versions: SchemaVersion[]}} TableHistory
 * @typedef {{usage: TableUsage, minutes: {at: number[], insert: number[], update: number[], delete: number[]},
 *   clients: {id: number, name: string, kinds: string}[], streams: CDCStream[], definition: TableSchema | null}} TableDetail
 */

/** Time limit for a reply, in milliseconds. */
const PATIENCE = 8000;

/** @param {string} path @returns {Promise<any>} the document; an `Error` with a readable message if there is none */
async function get(path) {
  let response;
  try {
    response = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
  } catch (error) {
    const late = error instanceof DOMException && error.name === "TimeoutError";
    throw new Error(late ? `no reply within ${PATIENCE / 1000} s` : "it is not reachable", { cause: error });
  }
  if (!response.ok) throw new Error(await reason(response));
  return response.json();
}

/** Why a request got no document. @param {Response} response */
async function reason(response) {
  const document = await response.json().catch(() => ({})); // a proxy may have replied
  return document.error ?? `it replied with status ${response.status}`;
}

/** @returns {Promise<Stat>} */
export const stat = () => get("api/stat");

/** @returns {Promise<History>} */
export const history = () => get("api/history");

/** @param {number} id @returns {Promise<ClientDetail>} */
export const client = (id) => get(`api/client?id=${id}`);

/** @param {string} schema @param {string} table @returns {Promise<TableDetail>} */
export const table = (schema, table) => get(`api/table?${new URLSearchParams({ schema, table })}`);

/** @returns {Promise<TableSchema[]>} */
export const schema = () => get("api/schema");

/** @param {string} schema @param {string} table @returns {Promise<TableHistory>} */
export const tableHistory = (schema, table) => get(`api/schema/history?${new URLSearchParams({ schema, table })}`);
