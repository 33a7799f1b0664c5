//! One collection of points.
use std::{collections::BTreeMap, ops::Bound};

use serde::Serialize;
use serde_json::{Value, json};

use super::{
    filter::Filter,
    id::PointId,
    payload::{self, Payload, WithPayload},
    refusal::Refusal,
    requests::{
        Count, CreateCollection, CreateIndex, DeletePayload, NewPoint, Retrieve, Scroll, Selector,
        SetPayload, WithVector,
    },
    vectors::{UNNAMED, VectorsConfig},
};

/// What a collection, an index or a point takes beside what is in it, roughly.
const OVERHEAD: usize = 256;

#[derive(Debug)]
pub(super) struct Collection {
    pub(super) vectors: VectorsConfig,
    pub(super) points: BTreeMap<PointId, Point>,
    indexes: BTreeMap<String, Value>,
    operations: u64,
    bytes: usize,
    most_bytes: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Point {
    /// The number of the operation that wrote it.
    pub(super) version: u64,
    pub(super) vectors: BTreeMap<String, Vec<f32>>,
    pub(super) payload: Payload,
}

impl Point {
    fn bytes(&self) -> usize {
        let vectors: usize =
            self.vectors.iter().map(|(name, vector)| 64 + name.len() + 4 * vector.len()).sum();
        OVERHEAD + vectors + payload::weight(&self.payload)
    }
}

/// A point as answers show it.
#[derive(Serialize)]
pub(super) struct Record {
    pub(super) id: PointId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) payload: Option<Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) vector: Option<Vectors>,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Vectors {
    Single(Vec<f32>),
    Named(BTreeMap<String, Vec<f32>>),
}

#[derive(Serialize)]
pub(super) struct Page {
    points: Vec<Record>,
    next_page_offset: Option<PointId>,
}

impl Collection {
    pub(super) fn new(create: CreateCollection) -> Result<Self, Refusal> {
        if create.sparse_vectors.as_ref().and_then(Value::as_object).is_some_and(|sparse| !sparse.is_empty())
        {
            return Err(Refusal::unsupported("sparse vectors are"));
        }
        let vectors = create.vectors.unwrap_or_else(|| VectorsConfig::Named(BTreeMap::new()));
        vectors.check()?;
        let bytes = OVERHEAD;
        Ok(Self {
            vectors,
            points: BTreeMap::new(),
            indexes: BTreeMap::new(),
            operations: 0,
            bytes,
            most_bytes: bytes,
        })
    }

    pub(super) fn info(&self) -> Value {
        let indexes: BTreeMap<_, _> = self
            .indexes
            .iter()
            .map(|(field, kind)| {
                let points =
                    self.points.values().filter(|point| !payload::values(&point.payload, field).is_empty());
                (field, json!({"data_type": kind, "points": points.count()}))
            })
            .collect();
        json!({
            "status": "green",
            "optimizer_status": "ok",
            "indexed_vectors_count": 0,
            "points_count": self.points.len(),
            "segments_count": 1,
            "config": {
                "params": {
                    "vectors": self.vectors,
                    "shard_number": 1,
                    "replication_factor": 1,
                    "write_consistency_factor": 1,
                    "on_disk_payload": true,
                },
                "hnsw_config": {
                    "m": 16,
                    "ef_construct": 100,
                    "full_scan_threshold": 10_000,
                    "max_indexing_threads": 0,
                    "on_disk": false,
                },
                "optimizer_config": {
                    "deleted_threshold": 0.2,
                    "vacuum_min_vector_number": 1_000,
                    "default_segment_number": 0,
                    "max_segment_size": null,
                    "memmap_threshold": null,
                    "indexing_threshold": 10_000,
                    "flush_interval_sec": 5,
                    "max_optimization_threads": null,
                },
                "wal_config": {"wal_capacity_mb": 32, "wal_segments_ahead": 0, "wal_retain_closed": 1},
                "quantization_config": null,
            },
            "payload_schema": indexes,
        })
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Most bytes that it may come to hold.
    pub(super) fn set_most_bytes(&mut self, most: usize) {
        self.most_bytes = most;
    }

    pub(super) fn next_operation(&mut self) -> u64 {
        self.operations += 1;
        self.operations
    }

    fn version(&self) -> u64 {
        self.operations + 1
    }

    fn room_for(&self, bytes: usize) -> Result<(), Refusal> {
        if bytes > self.most_bytes.saturating_sub(self.bytes) { Err(Refusal::full()) } else { Ok(()) }
    }

    pub(super) fn create_index(&mut self, index: CreateIndex) -> Result<(), Refusal> {
        let kind = match index.field_schema {
            Some(Value::Object(mut schema)) => schema.shift_remove("type"),
            kind => kind,
        };
        let kind = kind.filter(Value::is_string).unwrap_or_else(|| "keyword".into());
        let bytes = OVERHEAD + index.field_name.len();
        self.room_for(bytes)?;
        if self.indexes.insert(index.field_name, kind).is_none() {
            self.bytes += bytes;
        }
        Ok(())
    }

    pub(super) fn delete_index(&mut self, field: &str) {
        if self.indexes.remove(field).is_some() {
            self.bytes -= OVERHEAD + field.len();
        }
    }

    /// All of the points, or none.
    pub(super) fn upsert(&mut self, points: Vec<NewPoint>) -> Result<(), Refusal> {
        let version = self.version();
        let prepare = |new: NewPoint| {
            let vectors = new.vector.prepare(&self.vectors)?;
            Ok((new.id, Point { version, vectors, payload: new.payload.unwrap_or_default() }))
        };
        let points: Vec<_> = points.into_iter().map(prepare).collect::<Result<_, _>>()?;
        self.room_for(points.iter().map(|(_, point)| point.bytes()).sum())?;
        for (id, point) in points {
            self.put(id, point);
        }
        Ok(())
    }

    fn put(&mut self, id: PointId, point: Point) {
        self.bytes += point.bytes();
        if let Some(old) = self.points.insert(id, point) {
            self.bytes -= old.bytes();
        }
    }

    pub(super) fn delete(&mut self, selector: &Selector) -> Result<(), Refusal> {
        for id in self.selected(selector) {
            if let Some(old) = self.points.remove(&id) {
                self.bytes -= old.bytes();
            }
        }
        Ok(())
    }

    fn selected(&self, selector: &Selector) -> Vec<PointId> {
        match selector {
            Selector::Points { points } => {
                points.iter().copied().filter(|id| self.points.contains_key(id)).collect()
            }
            Selector::Filter { filter } => self.matching(Some(filter)).map(|(id, _)| id).collect(),
        }
    }

    pub(super) fn matching<'a>(
        &'a self,
        filter: Option<&'a Filter>,
    ) -> impl Iterator<Item = (PointId, &'a Point)> {
        let points = self.points.iter().map(|(id, point)| (*id, point));
        points.filter(move |(id, point)| filter.is_none_or(|filter| filter.matches(*id, point)))
    }

    pub(super) fn set_payload(&mut self, set: &SetPayload, overwrite: bool) -> Result<(), Refusal> {
        if set.key.is_some() {
            return Err(Refusal::unsupported("setting a payload at a key is"));
        }
        let selected = self.selected(&set.selector);
        self.room_for(selected.len().saturating_mul(payload::weight(&set.payload)))?;
        self.change(&selected, |payload| {
            if overwrite {
                payload.clear();
            }
            payload.extend(set.payload.clone());
        });
        Ok(())
    }

    pub(super) fn delete_payload(&mut self, delete: &DeletePayload) -> Result<(), Refusal> {
        let selected = self.selected(&delete.selector);
        self.change(&selected, |payload| delete.keys.iter().for_each(|key| payload::exclude(payload, key)));
        Ok(())
    }

    pub(super) fn clear_payload(&mut self, selector: &Selector) -> Result<(), Refusal> {
        let selected = self.selected(selector);
        self.change(&selected, Payload::clear);
        Ok(())
    }

    fn change(&mut self, selected: &[PointId], change: impl Fn(&mut Payload)) {
        let version = self.version();
        for id in selected {
            if let Some(mut point) = self.points.get(id).cloned() {
                point.version = version;
                change(&mut point.payload);
                self.put(*id, point);
            }
        }
    }

    pub(super) fn one(&self, id: PointId) -> Result<Record, Refusal> {
        let point = self.points.get(&id);
        let point =
            point.ok_or_else(|| Refusal::not_found(format!("Point with id {id} does not exists!")))?;
        self.record(id, point, &WithPayload::All(true), &WithVector::All(true))
    }

    pub(super) fn retrieve(&self, retrieve: &Retrieve) -> Result<Vec<Record>, Refusal> {
        let points = retrieve.ids.iter().filter_map(|id| Some((*id, self.points.get(id)?)));
        self.records(points, retrieve.with_payload.as_ref(), retrieve.with_vector.as_ref())
    }

    pub(super) fn count(&self, count: &Count) -> usize {
        self.matching(count.filter.as_ref()).count()
    }

    pub(super) fn scroll(&self, scroll: &Scroll) -> Result<Page, Refusal> {
        if scroll.order_by.is_some() {
            return Err(Refusal::unsupported("ordering by a payload's value is"));
        }
        let limit = at_least_one("limit", scroll.limit.unwrap_or(10))?;
        let from = scroll.offset.map_or(Bound::Unbounded, Bound::Included);
        let filter = scroll.filter.as_ref();
        let mut points = self
            .points
            .range((from, Bound::Unbounded))
            .map(|(id, point)| (*id, point))
            .filter(|(id, point)| filter.is_none_or(|filter| filter.matches(*id, point)));
        let page = points.by_ref().take(limit);
        let points_of_page = self.records(page, scroll.with_payload.as_ref(), scroll.with_vector.as_ref())?;
        Ok(Page { points: points_of_page, next_page_offset: points.next().map(|(id, _)| id) })
    }

    /// With the payload unless it says otherwise, without the vectors unless it says otherwise.
    fn records<'a>(
        &self,
        points: impl Iterator<Item = (PointId, &'a Point)>,
        with_payload: Option<&WithPayload>,
        with_vector: Option<&WithVector>,
    ) -> Result<Vec<Record>, Refusal> {
        let with_payload = with_payload.unwrap_or(&WithPayload::All(true));
        let with_vector = with_vector.unwrap_or(&WithVector::All(false));
        points.map(|(id, point)| self.record(id, point, with_payload, with_vector)).collect()
    }

    pub(super) fn record(
        &self,
        id: PointId,
        point: &Point,
        with_payload: &WithPayload,
        with_vector: &WithVector,
    ) -> Result<Record, Refusal> {
        let vector = match (with_vector, &self.vectors) {
            (WithVector::All(false), _) => None,
            (WithVector::All(true), VectorsConfig::Single(_)) => {
                point.vectors.get(UNNAMED).cloned().map(Vectors::Single)
            }
            (WithVector::All(true), VectorsConfig::Named(_)) => Some(Vectors::Named(point.vectors.clone())),
            (WithVector::Named(names), _) => {
                names.iter().try_for_each(|name| self.vectors.params(name).map(drop))?;
                let named =
                    names.iter().filter_map(|name| Some((name.clone(), point.vectors.get(name)?.clone())));
                Some(Vectors::Named(named.collect()))
            }
        };
        Ok(Record { id, payload: with_payload.select(&point.payload), vector })
    }
}

pub(super) fn at_least_one(field: &str, number: usize) -> Result<usize, Refusal> {
    let problem = || Refusal::invalid(field, format!("value {number} invalid, must be 1 or larger"));
    (number > 0).then_some(number).ok_or_else(problem)
}
