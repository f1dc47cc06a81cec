// Scenarios of kafkajs against a broker, unchanged. It prints each check that passed.
const { Kafka, CompressionTypes, logLevel, ConfigResourceTypes } = require('kafkajs')

const checked = what => console.log('checked: ' + what)
const that = (holds, what) => {
  if (!holds) throw new Error(what)
  checked(what)
}

const [bootstrap, topic] = process.argv.slice(2)
const kafka = new Kafka({ clientId: 'interop', brokers: [bootstrap], logLevel: logLevel.ERROR })
const PER_CODEC = 300

async function produce() {
  const producer = kafka.producer()
  await producer.connect()
  for (const [name, compression] of [['none', CompressionTypes.None], ['gzip', CompressionTypes.GZIP]]) {
    const messages = Array.from({ length: PER_CODEC }, (_, i) => ({
      key: `k${i % 10}`, value: `${name}-${i}`, headers: { codec: name }, timestamp: `${1700000000000 + i}`,
    }))
    const answers = await producer.send({ topic, compression, messages })
    that(answers.length > 0 && answers.every(a => a.errorCode === 0), `produce ${name}`)
  }
  await producer.disconnect()
  return 2 * PER_CODEC
}

async function collect(groupId, topics, count, options = {}) {
  const consumer = kafka.consumer({ groupId, ...options })
  const seen = []
  await consumer.connect()
  await consumer.subscribe({ topics, fromBeginning: true })
  await new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`${seen.length} of ${count} records`)), 60000)
    consumer.run({
      eachMessage: async ({ message }) => {
        seen.push(message.value.toString())
        if (seen.length === count) { clearTimeout(late); resolve() }
      },
    }).catch(reject)
  })
  await consumer.disconnect()
  return seen
}

async function transactions(input) {
  const producer = kafka.producer({ transactionalId: `tx-${topic}`, idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  for (let round = 0; round < 4; round++) {
    const transaction = await producer.transaction()
    await transaction.send({ topic: input, messages: Array.from({ length: 25 }, (_, i) => ({ value: `${round}-${i}` })) })
    await transaction.sendOffsets({
      consumerGroupId: `tx-group-${topic}`, topics: [{ topic: input, partitions: [{ partition: 0, offset: `${10 + round}` }] }],
    })
    if (round % 2) await transaction.abort()
    else await transaction.commit()
  }
  await producer.disconnect()
  const seen = await collect(`tx-reader-${topic}`, [input], 50)
  that(new Set(seen).size === 50 && seen.every(v => '02'.includes(v[0])), 'transactions, committed and aborted')
  const admin = kafka.admin()
  await admin.connect()
  const [offsets] = await admin.fetchOffsets({ groupId: `tx-group-${topic}`, topics: [input] })
  that(offsets.partitions.some(p => p.offset === '12'), 'offsets in a transaction')
  await admin.disconnect()
}

async function main() {
  const admin = kafka.admin()
  await admin.connect()
  that(await admin.createTopics({ topics: [{ topic, numPartitions: 3 }, { topic: topic + '-tx', numPartitions: 1 }] }), 'create topics')
  that((await admin.listTopics()).includes(topic), 'list topics')
  const sent = await produce()
  const seen = await collect(`group-${topic}`, [topic], sent)
  that(new Set(seen).size === sent && seen.length === sent, 'a group reads every record once')
  const [committed] = await admin.fetchOffsets({ groupId: `group-${topic}`, topics: [topic] })
  that(committed.partitions.reduce((sum, p) => sum + Math.max(0, Number(p.offset)), 0) === sent, 'committed offsets')
  const ends = await admin.fetchTopicOffsets(topic)
  that(ends.reduce((sum, p) => sum + Number(p.high), 0) === sent, 'offsets of a topic')
  const times = await admin.fetchTopicOffsetsByTimestamp(topic, 1700000000000 + PER_CODEC + 1)
  that(times.every(p => Number(p.offset) >= 0), 'offsets by time')
  const { groups } = await admin.describeGroups([`group-${topic}`])
  that(groups[0].state === 'Empty', 'describe a group')
  await admin.deleteGroups([`group-${topic}`])
  checked('delete a group')
  await admin.createPartitions({ topicPartitions: [{ topic, count: 5 }] })
  that((await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length === 5, 'create partitions')
  await admin.alterConfigs({ validateOnly: false, resources: [
    { type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [{ name: 'retention.ms', value: '777777' }] }] })
  const { resources } = await admin.describeConfigs({ resources: [{ type: ConfigResourceTypes.TOPIC, name: topic }] })
  that(resources[0].configEntries.some(e => e.configName === 'retention.ms' && e.configValue === '777777'), 'set and describe options')
  await transactions(topic + '-tx')
  await admin.deleteTopics({ topics: [topic, topic + '-tx'] })
  that(!(await admin.listTopics()).includes(topic), 'delete topics')
  await admin.disconnect()
  console.log('done')
}

main().then(() => process.exit(0), error => { console.error(error); process.exit(1) })
