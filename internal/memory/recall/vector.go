package recall

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
)

// Bounds of what vectors may cost.
const (
	maxVectors   = 50_000          // passages, the newest, that have one and are compared
	vectorBatch  = 63              // passages that a search embeds beside its words, the newest without a vector
	embedTime    = 5 * time.Second // for the words of a search
	vectorHits   = 50              // passages that vectors bring in
	rankConstant = 60              // of reciprocal rank fusion, as in the paper that proposed it
)

// Embed makes vectors for the newest passages that have none, at most limit,
// and returns how many it made. Without an Embedder it makes none.
func (x *Index) Embed(ctx context.Context, limit int) (int, error) {
	if x.o.Embed == nil {
		return 0, nil
	}
	ids, texts, err := withoutVector(ctx, x.read, limit)
	if err != nil || len(ids) == 0 {
		return 0, x.failure("embed", err)
	}
	vectors, err := x.embed(ctx, texts)
	if err != nil {
		return 0, err
	}
	return len(ids), x.failure("embed", x.keepVectors(ctx, ids, vectors))
}

func (x *Index) embed(ctx context.Context, texts []string) ([][]float32, error) {
	vectors, err := x.o.Embed.Embed(ctx, texts)
	if err == nil && len(vectors) != len(texts) {
		err = glovebox.Errorf(glovebox.CodeUnavailable, "%d vectors came for %d texts", len(vectors), len(texts))
	}
	return vectors, err
}

// queryer is a database or a transaction.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// withoutVector returns the newest passages that have no vector yet.
func withoutVector(ctx context.Context, db queryer, limit int) (ids []int64, texts []string, err error) {
	rows, err := db.QueryContext(ctx, `SELECT id, text FROM (SELECT id, text FROM passage ORDER BY id DESC LIMIT ?)
		WHERE id NOT IN (SELECT id FROM vector) LIMIT ?`, maxVectors, limit)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var text string
		if err := rows.Scan(&id, &text); err != nil {
			return nil, nil, err
		}
		ids, texts = append(ids, id), append(texts, text)
	}
	return ids, texts, rows.Err()
}

func (x *Index) keepVectors(ctx context.Context, ids []int64, vectors [][]float32) error {
	x.adding.Lock()
	defer x.adding.Unlock()
	tx, err := x.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for i, id := range ids {
		if _, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO vector(id, v) VALUES(?, ?)", id, packVector(vectors[i])); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// packVector keeps a vector as bytes: its length, then a byte a number.
func packVector(v []float32) []byte {
	most := float32(0)
	for _, f := range v {
		most = max(most, max(f, -f))
	}
	b := make([]byte, 4, 4+len(v))
	sum := 0.0
	for _, f := range v {
		n := 0.0
		if most > 0 && !math.IsInf(float64(most), 0) && f == f {
			n = math.Round(float64(f) / float64(most) * 127)
		}
		sum += n * n
		b = append(b, byte(int8(n)))
	}
	binary.LittleEndian.PutUint32(b, math.Float32bits(float32(math.Sqrt(sum))))
	return b
}

// cosine compares packed vectors; those of different lengths, which two models
// made, have nothing in common.
func cosine(a, b []byte) float64 {
	if len(a) != len(b) || len(a) <= 4 {
		return 0
	}
	dot := int64(0)
	for i := 4; i < len(a); i++ {
		dot += int64(int8(a[i])) * int64(int8(b[i]))
	}
	lengths := float64(math.Float32frombits(binary.LittleEndian.Uint32(a))) * float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	if lengths == 0 {
		return 0
	}
	return float64(dot) / lengths
}

// vectors joins what is near in meaning with what the words found, by
// reciprocal rank fusion. Where that can't be had, the words stand alone.
func (s *searcher) vectors(ctx context.Context, pool *pool, ranked []*doc) ([]*doc, error) {
	near, err := s.nearest(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		s.p.addNote("only words were compared, since meanings could not be: %s", clip.Head(err.Error(), 200))
		return ranked, nil
	}
	var ids []int64
	for _, n := range near {
		ids = append(ids, n.id)
	}
	if len(s.p.must) > 0 { // what has no such file or tool is not wanted
		ids = slices.DeleteFunc(ids, func(id int64) bool { return pool.docs[id] == nil })
	} else if err := pool.fetch(ctx, ids); err != nil {
		return nil, err
	}
	fused := map[*doc]float64{}
	for i, d := range ranked {
		fused[d] = 1 / float64(rankConstant+i+1)
	}
	for i, id := range ids {
		d := pool.docs[id]
		if d == nil {
			continue
		}
		if pool.admit(d); d.candidate {
			fused[d] += 1 / float64(rankConstant+i+1)
		}
	}
	out := make([]*doc, 0, len(fused))
	for d, v := range fused {
		d.score = v
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b *doc) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.id, a.id)) })
	return out, nil
}

type similar struct {
	id int64
	by float64
}

// nearest returns the passages of the range that are nearest in meaning. With
// the words it embeds some passages that have no vector yet, so that an index
// that nobody embeds ahead fills up as it is used.
func (s *searcher) nearest(ctx context.Context) ([]similar, error) {
	x := s.x
	short, cancel := context.WithTimeout(ctx, embedTime)
	defer cancel()
	ids, texts, err := withoutVector(short, s.tx, vectorBatch)
	if err != nil {
		return nil, err
	}
	made, err := x.embed(short, append([]string{s.p.Words}, texts...))
	if err != nil {
		return nil, err
	}
	asked := packVector(made[0])
	var all []similar
	compare := func(id int64, v []byte) {
		if id >= s.p.lo && id <= s.p.hi {
			if c := cosine(asked, v); c > 0 {
				all = append(all, similar{id, c})
			}
		}
	}
	for i, id := range ids {
		compare(id, packVector(made[i+1]))
	}
	if err := x.keepVectors(ctx, ids, made[1:]); err != nil {
		return nil, err
	}
	rows, err := s.tx.QueryContext(ctx, "SELECT id, v FROM vector WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT ?", s.p.lo, s.p.hi, maxVectors)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var v []byte
		if err := rows.Scan(&id, &v); err != nil {
			return nil, err
		}
		compare(id, v)
	}
	slices.SortFunc(all, func(a, b similar) int { return cmp.Or(cmp.Compare(b.by, a.by), cmp.Compare(b.id, a.id)) })
	all = slices.CompactFunc(all, func(a, b similar) bool { return a.id == b.id })
	return all[:min(len(all), vectorHits)], rows.Err()
}
