//! What the signature of a call to Amazon Bedrock costs, for bodies of 1, 10 and 100 KB: `cargo bench --bench sign`.
#![expect(clippy::expect_used, reason = "a bench may stop at the first surprise")]

use std::{
    hint::black_box,
    time::{Duration, UNIX_EPOCH},
};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pointsman_base::secret::Secret;
use pointsman_transport::Signer;

const HOST: &str = "bedrock-runtime.eu-central-1.amazonaws.com";

fn signatures(c: &mut Criterion) {
    let keys = r#"{"AccessKeyId":"AKIDEXAMPLE","SecretAccessKey":"wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}"#;
    let signer = Signer::new(&Secret::new(keys.to_owned()), HOST, "eu-central-1").expect("a signer");
    let address = format!("https://{HOST}/model/anthropic.claude-haiku-4-5-20251001-v1%3A0/converse-stream");
    let now = UNIX_EPOCH + Duration::from_secs(1_764_000_000);
    let mut group = c.benchmark_group("signature");
    for kilobytes in [1, 10, 100] {
        let body = vec![b'a'; kilobytes * 1024];
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_with_input(BenchmarkId::from_parameter(format!("{kilobytes} KB")), &body, |bencher, body| {
            bencher.iter(|| signer.sign(black_box(&address), black_box(body), now).expect("signed"));
        });
    }
    group.finish();
}

criterion_group!(benches, signatures);
criterion_main!(benches);
