"""A word language model: LSTM with truncated backpropagation through time, on Python's language reference.

    python examples/gluon/word_language_model.py [--epochs 3] [--words 60000]
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Iterator

import numpy as np
from data import english

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.gluon import nn, rnn

BATCH, STEPS = 16, 30


class LanguageModel(gluon.HybridBlock):
    """Embedding, LSTM, and a decoder that shares the embedding's weight."""

    def __init__(self, vocabulary: int, hidden: int, **kwargs) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.drop = nn.Dropout(0.1)
            self.encoder = nn.Embedding(vocabulary, hidden)
            self.rnn = rnn.LSTM(hidden, num_layers=1, input_size=hidden)
            self.decoder = nn.Dense(vocabulary, flatten=False, in_units=hidden, params=self.encoder.params)

    def hybrid_forward(self, F, words, state_h, state_c):
        """Scores of the next word at each place, and the states after the last."""
        out, (state_h, state_c) = self.rnn(self.drop(self.encoder(words)), [state_h, state_c])
        return self.decoder(self.drop(out)), state_h, state_c


def batches(numbers: np.ndarray) -> Iterator[tuple[mx.nd.NDArray, mx.nd.NDArray]]:
    """(words, next words) of shape (STEPS, BATCH), each batch the continuation of the one before."""
    columns = numbers[:len(numbers) // BATCH * BATCH].reshape(BATCH, -1).T
    for start in range(0, len(columns) - STEPS, STEPS):
        yield mx.nd.array(columns[start:start + STEPS]), mx.nd.array(columns[start + 1:start + STEPS + 1])


def perplexity(net: LanguageModel, numbers: np.ndarray, loss_fn: gluon.loss.Loss) -> float:
    """exp of the mean loss per word."""
    states, losses = net.rnn.begin_state(BATCH), []
    for words, following in batches(numbers):
        scores, *states = net(words, *states)
        losses.append(loss_fn(scores, following).mean())
    return math.exp(mx.nd.stack(*losses).mean().asscalar())


def main() -> None:
    """Trains, and compares with always guessing by frequency."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--words", type=int, default=60_000)
    parser.add_argument("--hidden", type=int, default=64)
    arguments = parser.parse_args()
    mx.random.seed(0)
    words = english()[:arguments.words]
    common = [word for word, _ in Counter(words).most_common(999)]
    number = {word: i for i, word in enumerate(common, 1)}  # 0: any rarer word
    numbers = np.array([number.get(word, 0) for word in words], np.float32)
    cut = len(numbers) * 9 // 10
    train, test = numbers[:cut], numbers[cut:]
    share = np.maximum(np.bincount(train.astype(int), minlength=1000), 1) / len(train)
    by_frequency = math.exp(-np.log(share[test.astype(int)]).mean())

    net, loss_fn = LanguageModel(1000, arguments.hidden), gluon.loss.SoftmaxCrossEntropyLoss(axis=-1)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 1e-2})
    for epoch in range(arguments.epochs):
        states = net.rnn.begin_state(BATCH)
        for inputs, following in batches(train):
            states = [state.detach() for state in states]  # gradients end here
            with autograd.record():
                scores, *states = net(inputs, *states)
                loss = loss_fn(scores, following).mean()
            loss.backward()
            gluon.utils.clip_global_norm([p.grad() for p in net.collect_params().values()], 1.0,
                                         check_isfinite=False)
            trainer.step(1)
        print(f"epoch {epoch}: perplexity of the test text {perplexity(net, test, loss_fn):.1f}"
              f" (guessing by frequency: {by_frequency:.1f})")
    if perplexity(net, test, loss_fn) > 0.5 * by_frequency:
        raise SystemExit("the model learned too little")


if __name__ == "__main__":
    main()
