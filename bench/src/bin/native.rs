//! The native operator as a process.

use clap::Parser;
use kube::config::{KubeConfigOptions, Kubeconfig};

/// The same allocator as the host's, so that allocators make no difference.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A Memcached operator on kube-rs, without a host around its logic
#[derive(Parser)]
struct Args {
    /// Kubeconfig file
    #[arg(long, value_name = "FILE")]
    kubeconfig: std::path::PathBuf,
    /// The image that the servers run
    #[arg(long, env = "MEMCACHED_IMAGE")]
    image: Option<String>,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let kubeconfig = Kubeconfig::read_from(&args.kubeconfig)?;
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        hotshoe_bench::native::run(kube::Client::try_from(config)?, args.image.as_deref()).await;
        Ok(())
    })
}
