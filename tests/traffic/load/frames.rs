//! Small packets past the sender's IP stack: what they leave by, and that all of them are counted.

use linerate::machine::sys::xsk::XdpSender;

use super::*;

/// 64-byte frames with FCS at 5000 a second: 18 bytes of payload each.
fn small(direction: Direction, streams: u32, sender: Sender) -> LoadSpec {
    LoadSpec {
        sender,
        datagram: 18,
        ..LoadSpec::udp(direction, streams, 1.0, Some(BitRate(5000.0 * 18.0 * 8.0)))
    }
}

/// Measures, and holds what came of it against the router's own counters.
fn counted(context: &Context, spec: &LoadSpec) -> Measurement {
    let measured = bench::measure(context, spec, &go_on()).unwrap();
    let flow = &measured.flows[0];
    let direction = spec.direction;
    let (received, lost) = (flow.received.unwrap(), flow.lost.unwrap());
    // A busy machine sends fewer than were asked for.
    assert!(received > 100 && lost <= received, "{direction}: {measured:?}");
    assert!((59.0..62.0).contains(&measured.packet_bytes), "{}", measured.packet_bytes);
    // Translated on the way like any other packet: the receiver's socket took them.
    assert_eq!(flow.bytes, received * 18);
    let came_in = if direction == Direction::Up { ROUTER_LAN } else { ROUTER_WAN };
    let device = measured.devices.iter().find(|d| d.device == came_in).unwrap();
    // Beside the data some forty packets of each stream talk: greetings, ends, neighbours.
    let talk = 60 * u64::from(spec.streams);
    let seen = device.rx_packets;
    assert!((received..=received + lost + talk).contains(&seen), "{seen} seen, {measured:?}");
    assert!(!codes(&measured).contains(&RefusalCode::CountersDisagree), "{measured:?}");
    let by = flow.sent_by.clone().unwrap();
    assert!(measured.notes.iter().any(|note| note.ends_with(&by)), "{:?}", measured.notes);
    measured
}

/// Whether this kernel has AF_XDP: only then may anything be said of it.
fn has_xdp(netns: &NetnsThread) -> bool {
    let tried = netns.run(|| XdpSender::open(u32::MAX, 0, &[0; 64], 42).map(drop)).unwrap();
    tried.unwrap_err().raw_os_error() != Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
}

#[test]
#[ignore = "slow: make test runs it"]
fn ready_made_frames_are_forwarded_counted_and_as_large_as_asked() {
    let _alone = alone();
    let lab = lab!();
    let xdp = has_xdp(&lab.lan);
    for direction in [Direction::Up, Direction::Down] {
        for (sender, streams) in [(Sender::Packet, 2), (Sender::Xdp, 1), (Sender::Frames, 1)] {
            let measured = counted(&context(&lab), &small(direction, streams, sender));
            let by = measured.flows[0].sent_by.as_deref().unwrap();
            let expected = if sender == Sender::Packet || !xdp { "AF_PACKET" } else { "AF_XDP" };
            assert!(by.starts_with(expected), "{sender:?}: {by}");
        }
    }
    let tcp = LoadSpec { sender: Sender::Frames, ..LoadSpec::tcp(Direction::Up, 1, 1.0, 0.0) };
    assert_eq!(tcp.check().unwrap_err().code(), ExitCode::Usage);
    nobody_is_left();
    if !xdp {
        skip!("this kernel has no AF_XDP (CONFIG_XDP_SOCKETS): only the packet sockets were seen");
    }
}

#[test]
#[ignore = "slow: make test runs it"]
fn where_af_xdp_can_not_be_had_packet_sockets_send_and_the_reason_is_told() {
    let _alone = alone();
    let lab = lab!();
    if !has_xdp(&lab.lan) {
        skip!("this kernel has no AF_XDP (CONFIG_XDP_SOCKETS)");
    }
    let by = |measured: &Measurement| measured.flows[0].sent_by.clone().unwrap();
    // A veth has one queue.
    let two = by(&counted(&context(&lab), &small(Direction::Up, 2, Sender::Xdp)));
    assert!(two.starts_with("AF_PACKET") && two.contains("a transmit queue of its own"), "{two}");
    // Somebody else has it.
    let taken = lab.lan.run(|| {
        let any = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        let name = linerate::measure::lab::ENDPOINT;
        let ifindex = rustix::net::netdevice::name_to_index(&any, name).unwrap();
        XdpSender::open(ifindex, 0, &[0; 64], 42).unwrap()
    });
    let busy = by(&counted(&context(&lab), &small(Direction::Up, 1, Sender::Xdp)));
    assert!(busy.starts_with("AF_PACKET") && busy.contains("busy"), "{busy}");
    drop(taken);
    let free = by(&counted(&context(&lab), &small(Direction::Up, 1, Sender::Xdp)));
    assert!(free.starts_with("AF_XDP"), "{free}");
    // More than a chunk of the shared memory.
    let large = LoadSpec { datagram: 4000, ..small(Direction::Up, 1, Sender::Xdp) };
    let large = LoadSpec { rate: Some(BitRate(1e6)), ..large };
    let measured = bench::measure(&context(&lab), &large, &go_on()).unwrap();
    assert!(by(&measured).starts_with("AF_PACKET"), "{measured:?}");
    nobody_is_left();
}
