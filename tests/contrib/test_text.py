"""Tests of vocabularies and embeddings."""

import zipfile
from collections import Counter

import numpy as np
import pytest

import mxjax as mx
from mxjax.contrib import text


def test_counting():
    counter = text.utils.count_tokens_from_str(" Life is great ! \n life is good . \n", to_lower=True)
    assert counter == Counter({"is": 2, "life": 2, "!": 1, ".": 1, "good": 1, "great": 1})
    assert text.utils.count_tokens_from_str("*a*b*", r"\*", counter_to_update=Counter("a")) == Counter("aab")


def test_vocabulary():
    counter = Counter({"a": 3, "b": 3, "c": 2, "some": 1, "<unk>": 9})
    words = text.vocab.Vocabulary(counter, most_freq_count=3, min_freq=2, reserved_tokens=["<pad>", "c"])
    assert words.idx_to_token == ["<unk>", "<pad>", "c", "a", "b"] and len(words) == 5
    assert words.to_indices("b") == 4 and words.to_indices(["a", "nothing"]) == [3, 0]
    assert words.to_tokens([1, 3]) == ["<pad>", "a"] and words.to_tokens(0) == "<unk>"
    with pytest.raises(ValueError, match="index 5"):
        words.to_tokens(5)
    with pytest.raises(TypeError, match="index a"):
        words.to_tokens("a")


@pytest.mark.parametrize("options,words", [({"min_freq": 0}, "min_freq"), ({"reserved_tokens": ["<unk>"]}, "unknown"),
                                           ({"reserved_tokens": ["a", "a"]}, "duplicate"),
                                           ({"counter": {"a": 1}}, "Counter")])
def test_bad_vocabularies(options, words):
    with pytest.raises(AssertionError, match=words):
        text.vocab.Vocabulary(**options)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "x.vec"
    path.write_text("2 2\na 1 2\nB 3 4\na 5 6\n")
    return str(path)


def test_vectors_from_a_file(file):
    with pytest.warns(UserWarning, match="(header|duplicate)"):
        vectors = text.embedding.CustomEmbedding(file, init_unknown_vec=mx.nd.ones)
    assert vectors.vec_len == 2 and vectors.idx_to_token == ["<unk>", "a", "B"]
    assert vectors.idx_to_vec.asnumpy().tolist() == [[1, 1], [1, 2], [3, 4]]
    assert vectors.get_vecs_by_tokens("a").asnumpy().tolist() == [1, 2]
    assert vectors.get_vecs_by_tokens(["A", "x"], lower_case_backup=True).asnumpy().tolist() == [[1, 2], [1, 1]]
    vectors.update_token_vectors(["B", "<unk>"], mx.nd.array([[7, 8], [9, 9]]))
    assert vectors.idx_to_vec.asnumpy().tolist() == [[9, 9], [1, 2], [7, 8]]
    with pytest.raises(ValueError, match="Token x is unknown"):
        vectors.update_token_vectors("x", mx.nd.array([1, 2]))
    with pytest.raises(AssertionError, match="shape"):
        vectors.update_token_vectors("a", mx.nd.array([1, 2, 3]))
    for tokens, new in (("a", [1, 2]), ("a", mx.nd.zeros((1, 1, 2))), (["a", "B"], mx.nd.array([1, 2]))):
        with pytest.raises(AssertionError, match="must be an NDArray, 2-D or for a single token 1-D"):
            vectors.update_token_vectors(tokens, new)
    vectors.update_token_vectors(["a"], mx.nd.array([5, 6]))
    assert vectors.get_vecs_by_tokens("a").asnumpy().tolist() == [5, 6]


@pytest.mark.filterwarnings("ignore:At line")
def test_vectors_of_a_vocabulary(file):
    words = text.vocab.Vocabulary(Counter(["B", "new"]), reserved_tokens=["<pad>"])
    one = text.embedding.CustomEmbedding(file, vocabulary=words)
    assert one.idx_to_token == ["<unk>", "<pad>", "B", "new"]
    assert one.idx_to_vec.asnumpy().tolist() == [[0, 0], [0, 0], [3, 4], [0, 0]]
    both = text.embedding.CompositeEmbedding(words, [one, text.embedding.CustomEmbedding(file)])
    assert both.vec_len == 4 and both.get_vecs_by_tokens("B").asnumpy().tolist() == [3, 4, 3, 4]


@pytest.mark.parametrize("content,error,words", [("a\n", AssertionError, "line 1"), ("a x y\n", ValueError, "line 1"),
                                                 ("a 1 2\nb 1 2 3\n", AssertionError, "line 2.*is 3"),
                                                 ("", ValueError, "no vectors")])
def test_damaged_files(tmp_path, content, error, words):
    (tmp_path / "x").write_text(content)
    with pytest.raises(error, match=words):
        text.embedding.CustomEmbedding(str(tmp_path / "x"))


def test_the_file_may_have_the_unknown_token(tmp_path):
    """Its first vector counts. Results of MXNet 1.9.1."""
    (tmp_path / "x").write_text("<unk> 7 8\na 1 2\nb 3 4\n")
    words = text.vocab.Vocabulary(Counter(["a", "z"]))
    vectors = text.embedding.CustomEmbedding(str(tmp_path / "x"), init_unknown_vec=None)
    assert vectors.idx_to_vec.asnumpy().tolist() == [[7, 8], [1, 2], [3, 4]]
    both = text.embedding.CompositeEmbedding(words, vectors)
    assert both.idx_to_vec.asnumpy().tolist() == [[7, 8], [1, 2], [7, 8]]
    with pytest.raises(AssertionError, match="`vocabulary` must be an instance of .*, got list"):
        text.embedding.CustomEmbedding(str(tmp_path / "x"), vocabulary=["a"])
    with pytest.raises(AssertionError, match="`token_embeddings` must be .*, got int"):
        text.embedding.CompositeEmbedding(words, [vectors, 4])
    with pytest.raises(ValueError, match="must be a valid path .*'/nothing/x'"):
        text.embedding.CustomEmbedding("/nothing/x")


@pytest.mark.parametrize("kind, file, archive", [("glove", "glove.6B.50d.txt", "glove.6B.zip"),
                                                 ("fasttext", "wiki.aa.vec", "wiki.aa.zip")])
def test_missing_files_are_downloaded_and_unpacked(tmp_path, monkeypatch, kind, file, archive):
    asked = []

    def download(url, path, sha1_hash):
        asked.append((url, sha1_hash))
        with zipfile.ZipFile(path, "w") as packed:
            packed.writestr(file, "a 1 2\n")
        return path
    (tmp_path / kind).mkdir()
    monkeypatch.setattr(text.embedding, "download", download)
    monkeypatch.setenv("MXNET_GLUON_REPO", "https://example.org/")
    vectors = text.embedding.create(kind, pretrained_file_name=file, embedding_root=str(tmp_path),
                                    vocabulary=text.vocab.Vocabulary(Counter("ab")))
    known = text.embedding.GloVe if kind == "glove" else text.embedding.FastText
    assert asked == [(f"https://example.org/gluon/embeddings/{kind}/{archive}",
                      known.pretrained_archive_name_sha1[archive])]
    assert vectors.idx_to_vec.asnumpy().tolist() == [[0, 0], [1, 2], [0, 0]]


def test_known_files(tmp_path):
    names = text.embedding.get_pretrained_file_names()
    assert "wiki.simple.vec" in names["fasttext"] and len(names["fasttext"]) == 327
    assert "glove.6B.50d.txt" in text.embedding.get_pretrained_file_names("glove")
    with pytest.raises(KeyError, match="Cannot find pretrained file x for token embedding glove"):
        text.embedding.create("GloVe", pretrained_file_name="x")
    with pytest.raises(KeyError, match="word2vec"):
        text.embedding.get_pretrained_file_names("word2vec")


def test_own_kind(tmp_path, monkeypatch):
    import hashlib
    content = b"a 1 2\n"

    @text.embedding.register
    class Local(text.embedding._TokenEmbedding):
        pretrained_file_name_sha1 = {"x.vec": hashlib.sha1(content).hexdigest()}

        def __init__(self, embedding_root, **kwargs):
            super().__init__(**kwargs)
            self._load_embedding(self._get_pretrained_file(embedding_root, "x.vec"), " ", mx.nd.zeros)
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "x.vec").write_bytes(content)
    assert np.array_equal(text.embedding.create("local", embedding_root=str(tmp_path)).idx_to_vec.asnumpy(),
                          [[0, 0], [1, 2]])
